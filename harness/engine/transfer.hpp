// Between the host's plain tensors and a library's formats.
#pragma once

#include "harness/core/tensor.hpp"
#include "harness/engine/kernel_library.hpp"
#include "harness/engine/memory.hpp"

namespace assay {

// Converts `elements` of `from` (f32, f64 or i32) to `to` (f64, f32, i32 or bf16); from f32 to i32 they must
// be whole numbers. Throws CellError for other pairs.
void convert(const void* source, DType from, void* target, DType to, std::int64_t elements);

// Brings values into one format: makes the reorder once; push() does not allocate.
class Inlet {
 public:
  // `from` is the element type of the host's data.
  Inlet(KernelLibrary& library, const TensorType& type, const Format& format, DType from);
  void push(const void* host, void* target);

 private:
  Memory* memory_;
  TensorType type_;
  DType from_;
  Storage converted_;                // on the host; empty if its dtype is the value's
  std::unique_ptr<Kernel> reorder_;  // null if the format is plain
};

// A plain copy of the value at `source`; bf16 becomes f32. Not for the timed path.
HostTensor fetch(KernelLibrary& library, std::string name, const TensorType& type, const Format& format,
                 const void* source);

}  // namespace assay
