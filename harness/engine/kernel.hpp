// One node made executable: a primitive with its formats chosen, waiting for pointers.
#pragma once

#include <span>
#include <string_view>

namespace assay {

// Used from one thread; what threads it uses inside is its own business. run() neither allocates nor
// synchronises.
class Kernel {
 public:
  virtual ~Kernel() = default;

  // Where the operands are from now on: one pointer per operand and per result of the node, null where it is
  // absent. Every pointer is 64-byte aligned. `scratch` has the bytes that the lowering asked for and holds
  // nothing between runs. Called once in graph mode (again for kernels that read the batch, when the slot
  // changes), before every run in eager mode: so it must be cheap, a few stores. Results may lie over
  // operands where Lowered::in_place says so.
  virtual void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) = 0;

  // Which of the library's implementations it is, for profiles: "brgconv:avx512_core". May be empty.
  virtual std::string_view implementation() const { return {}; }

  // Reads the operands, writes every byte of the results that a reader may look at.
  virtual void run() = 0;
};

}  // namespace assay
