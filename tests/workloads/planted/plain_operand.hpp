// An operand or result of a kernel as a row-major array of floats, independent of the kernel's format.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "harness/engine/kernel_library.hpp"
#include "harness/engine/memory.hpp"

namespace assay {

class PlainOperand {
 public:
  // Absent, opaque, or neither f32 nor bf16: it has no values and passes through unchanged.
  explicit PlainOperand(TensorType type = {}) : type_(std::move(type)) {}
  PlainOperand(const TensorType& type, const Format& format, KernelLibrary& library);

  void bind(void* pointer) { pointer_ = pointer; }
  const Shape& shape() const { return type_.shape; }
  std::span<float> values() const;

  // Before a run: what the kernel wrote or will read becomes the values.
  void load();
  // The values become what the kernel's readers will read.
  void store();
  // The kernel reads these in place of the operand, until reset().
  void replace(std::span<const float> values);
  void reset() { replaced_ = false; }
  void* pointer_for_kernel() { return replaced_ ? replacement_.data() : pointer_; }

 private:
  // Between the kernel's format and type, and the values.
  void read(void* from, std::span<float> values);
  void write(std::span<const float> values, void* to);

  TensorType type_;
  void* pointer_ = nullptr;
  Storage values_, elements_, replacement_;                  // elements_: the values in the kernel's type
  std::shared_ptr<Kernel> to_plain_ = {}, from_plain_ = {};  // null if the kernel's format is row-major
  bool replaced_ = false;
};

}  // namespace assay
