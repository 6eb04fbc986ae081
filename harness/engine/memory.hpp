// The memory of a kernel library, which is the host's or a device's, and owned, aligned pieces of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace assay {

// Used from one thread; outlives the storage that it returns. Except for fetch() and allocate(), all
// operations run in the order of the library's work and may return before they are done.
class Memory {
 public:
  virtual ~Memory() = default;

  // Of every allocation, and of every buffer and scratch that an executor places within one: a power of two,
  // at least 64.
  virtual std::int64_t alignment() const { return 64; }

  // Aligned, never null, contents undefined. Throws OutOfMemory naming the bytes and `purpose`.
  virtual void* allocate(std::int64_t bytes, const char* purpose) = 0;
  // Work that was enqueued before may still use the memory.
  virtual void release(void* pointer) noexcept = 0;

  virtual void clear(void* pointer, std::int64_t bytes) = 0;
  // Both pointers are in this memory.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  // Copies a few bytes (at most 16) from the host; the caller may reuse them when it returns: the learning
  // rate of a step.
  virtual void put(void* to, const void* host, std::int64_t bytes) = 0;
  // Makes a batch of the host readable here; the caller may reuse its memory when this returns. The result is
  // valid for work that is enqueued before the next call.
  virtual const void* land(const void* host, std::int64_t bytes) = 0;
  // Returns when the bytes have arrived.
  virtual void fetch(void* host, const void* from, std::int64_t bytes) = 0;

  // Whether the host can read and write it directly.
  virtual bool is_host() const { return false; }
  // Named amounts in bytes, in addition to those that the executors count: {"device_peak", ...}.
  virtual std::map<std::string, std::int64_t> usage() const { return {}; }
};

Memory& host_memory();

class Memory;

// Aligned as its memory says, never empty, contents undefined until written. Throws OutOfMemory naming the bytes and
// `purpose`.
class Storage {
 public:
  Storage() = default;
  // In the host's memory.
  Storage(std::int64_t bytes, const char* purpose);
  // `memory` must outlive it.
  Storage(Memory& memory, std::int64_t bytes, const char* purpose);

  void* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }
  // Zeroes it, which also makes the system provide every page.
  void clear();

 private:
  struct Free {
    Memory* memory;
    void operator()(void* pointer) const;
  };
  std::unique_ptr<void, Free> data_;
  std::int64_t bytes_ = 0;
};

}  // namespace assay
