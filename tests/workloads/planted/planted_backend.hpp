// A backend with one mistake planted into it, to prove that the check catches such mistakes. It wraps the
// kernels of one of our backends, with any formats and fusions. Only for tests: no
// backend that is installed links it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/engine/kernel_library.hpp"
#include "harness/worker/backend.hpp"
#include "tests/workloads/planted/plain_operand.hpp"

namespace assay {

// One run of a kernel of the wronged op, in fp32. The mistake calls run() itself, and spoils what goes in or
// comes out. All arrays are row-major. An optimizer over many tensors is seen as one call for each of them.
class PlantedCall {
 public:
  // `lowered`: the kernel with its formats, of `library`, which outlives this.
  PlantedCall(const Graph& graph, const Node& node, Lowered lowered, KernelLibrary& library);

  // Operands and results as arrays of floats; empty where one is absent or of another type.
  std::span<float> in(std::size_t i) const { return inputs_.at(input_at(i)).values(); }
  std::span<float> out(std::size_t i) const { return outputs_.at(output_at(i)).values(); }
  const Shape& in_shape(std::size_t i) const { return inputs_.at(input_at(i)).shape(); }
  const Shape& out_shape(std::size_t i) const { return outputs_.at(output_at(i)).shape(); }
  const Attributes& attributes() const { return attributes_; }
  // The kernel reads this instead, only in the next run().
  void replace(std::size_t i, std::vector<float>& values) { inputs_.at(input_at(i)).replace(values); }
  void run();
  // Kept from run to run of this kernel, for each tensor of an optimizer.
  std::vector<float>& memory() { return memories_.at(group_); }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch);
  // Lets the mistake act, once for each group.
  void act(const std::function<void(PlantedCall&)>& mistake);

 private:
  std::size_t input_at(std::size_t i) const { return i < shared_ ? i : i + group_ * repeats_; }
  std::size_t output_at(std::size_t i) const { return i + group_ * results_; }

  Attributes attributes_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<PlainOperand> inputs_, outputs_;
  void* scratch_ = nullptr;
  std::size_t shared_ = 0, repeats_ = 0,
              results_ = 0;  // operands before the groups; operands and results of one
  std::size_t group_ = 0;
  std::vector<std::vector<float>> memories_;
};

enum class PlantedNetwork : std::uint8_t { traps, transformer, decoder };

// The program that shows a mistake.
struct PlantedIn {
  PlantedNetwork network = PlantedNetwork::traps;
  std::string_view optimizer = "adam";  // of traps
  double weight_decay = 0;
  bool fused_only = false;  // only in ops with a fused ReLU
};

struct Plant {
  std::string_view name;  // "pool_divisor"
  std::string_view what;  // in words
  std::vector<std::string_view> ops;
  std::function<void(PlantedCall&)> act;
  PlantedIn in = {};
};

// Every mistake there is.
const std::vector<Plant>& all_plants();
// Throws std::invalid_argument naming those there are.
const Plant& find_plant(std::string_view name);

// A backend whose kernels are wronged: the backend itself, and how its kernels are made.
struct Wronged {
  std::shared_ptr<Backend> backend;
  std::function<std::unique_ptr<KernelLibrary>(const CompileOptions&)> kernels;
};
Wronged wronged_reference();
// Null backend where this build has no oneDNN.
Wronged wronged_onednn();

class PlantedBackend final : public Backend {
 public:
  explicit PlantedBackend(const Plant& plant, Wronged wronged = wronged_reference())
      : plant_(plant), wronged_(std::move(wronged)) {}
  BackendInfo info() const override;
  std::string unsupported(const Program& program, const CompileOptions& options) const override;
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override;
  // Number of kernels that have been made wrong: a fused graph may have none of the ops.
  int planted() const { return *planted_; }

 private:
  const Plant& plant_;
  Wronged wronged_;
  std::shared_ptr<int> planted_ = std::make_shared<int>(0);
};

}  // namespace assay
