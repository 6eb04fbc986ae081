// The memory from which an exam gives its batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "harness/exam/feeds.hpp"

namespace assay {

// A view of a tensor that somebody else owns.
struct TensorView {
  const char* name = "";
  const TensorType* type = nullptr;
  const std::byte* data = nullptr;
};

// One buffer for all batches, as a run has it. After it was read it has other numbers: an executable that keeps a view
// instead of a copy then computes with these.
class StagingBuffer {
 public:
  // What was given before must not be read any more.
  void fill(const FedBatch& batch);
  // Overwrites what was filled in.
  void spoil();
  TensorView inputs() const { return {"inputs", &inputs_.type, inputs_.bytes.get()}; }
  TensorView labels() const { return {"labels", &labels_.type, labels_.bytes.get()}; }

 private:
  // A framework may keep a view of memory that begins at a page, and copy any other.
  static constexpr std::align_val_t alignment{4096};
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, alignment); }
  };
  struct Part {
    TensorType type{};
    std::unique_ptr<std::byte[], Free> bytes{};
  };
  static void fill(Part& part, const HostTensor& from);
  static void spoil(Part& part);

  Part inputs_{}, labels_{};
};

}  // namespace assay
