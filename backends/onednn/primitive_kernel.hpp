// A kernel that consists of one oneDNN primitive.
#pragma once

#include <string>
#include <vector>

#include "backends/onednn/check.hpp"
#include "backends/onednn/layout.hpp"
#include "harness/engine/kernel_library.hpp"

namespace assay::collectives {
class Exchange;
}

namespace assay::onednn {

// The engine and stream of a library. A CPU stream runs each primitive to its end.
struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  int threads = 1;
  collectives::Exchange* exchange = nullptr;  // with the other ranks; null for one rank
};

// The memory objects and the array of arguments are made once; bind() only sets data handles, run() only
// executes.
class PrimitiveKernel final : public Kernel {
 public:
  // Borrows the context.
  PrimitiveKernel(Context& context, dnnl::primitive primitive);

  // Argument `argument` of the primitive is operand / result `index` of the node, from its byte `offset` on,
  // with the layout `desc`.
  PrimitiveKernel& input(int argument, const Desc& desc, std::size_t index, std::int64_t offset = 0);
  PrimitiveKernel& output(int argument, const Desc& desc, std::size_t index, std::int64_t offset = 0);
  // A part of the node's scratch, from `offset` bytes on.
  PrimitiveKernel& scratch(int argument, const Desc& desc, std::int64_t offset);
  // A constant that was filled when the kernel was made, seen as `desc`; shares the memory.
  PrimitiveKernel& constant(int argument, const Desc& desc, dnnl::memory memory);

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override;
  void run() override;
  std::string_view implementation() const override { return implementation_; }

 private:
  enum class Place { input, output, scratch, constant };
  struct Argument {
    Place place;
    std::size_t index;    // of the operand or result
    std::int64_t offset;  // in bytes
    dnnl::memory memory;
  };
  PrimitiveKernel& add(int argument, const Desc& desc, Place place, std::size_t index, std::int64_t offset);

  Context& context_;
  dnnl::primitive primitive_;
  std::string implementation_;
  std::vector<Argument> arguments_;
  std::vector<dnnl::memory> constants_;  // some arguments use their storage
  std::vector<dnnl_exec_arg_t> call_;
};

// Attributes of every primitive: we supply its scratchpad.
dnnl::primitive_attr attributes();
// As above, followed by max(y, 0) if `relu`.
dnnl::primitive_attr attributes(bool relu);
// As above, followed by an activation of the contract: "relu", "gelu", "gelu_tanh"; none if it is empty.
dnnl::primitive_attr attributes(std::string_view activation);

}  // namespace assay::onednn
