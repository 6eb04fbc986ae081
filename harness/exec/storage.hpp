// Owned, aligned host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace assay {

// 64-byte aligned, never empty, contents undefined until written. Throws OutOfMemory naming the bytes and
// `purpose`.
class Storage {
 public:
  Storage() = default;
  Storage(std::int64_t bytes, const char* purpose);

  void* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }
  // Zeroes it, which also makes the system back every page.
  void clear();

 private:
  struct Free {
    void operator()(void* pointer) const;
  };
  std::unique_ptr<void, Free> data_;
  std::int64_t bytes_ = 0;
};

}  // namespace assay
