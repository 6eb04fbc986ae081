// Between the host's plain tensors and a library's formats.
#pragma once

#include "harness/core/tensor.hpp"
#include "harness/engine/kernel_library.hpp"
#include "harness/engine/memory.hpp"

namespace assay {

// Writes `elements` of `from` (f32, f64 or i32) as `to` (f64, f32, i32 or bf16); from f32 to i32 they are
// whole numbers. Throws CellError for other pairs.
void convert(const void* source, DType from, void* target, DType to, std::int64_t elements);

// Keeps one way into one format: the reorder is made once, push() allocates nothing.
class Inlet {
 public:
  // `from` is the dtype of the host's elements.
  Inlet(KernelLibrary& library, const TensorType& type, const Format& format, DType from);
  void push(const void* host, void* target);

 private:
  Memory* memory_;
  TensorType type_;
  DType from_;
  Storage converted_;                // of the host; empty where its dtype is the value's
  std::unique_ptr<Kernel> reorder_;  // null where the format is plain
};

// A copy of what lies at `source`, plain; bf16 becomes f32. Not for the timed path.
HostTensor fetch(KernelLibrary& library, std::string name, const TensorType& type, const Format& format,
                 const void* source);

}  // namespace assay
