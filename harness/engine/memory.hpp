// Where the storage of a kernel library lies, the host's own memory or that of a device, and owned, aligned pieces
// of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace assay {

// Used from one thread, outlives the storage that it gave. All but fetch() and allocate() take place in the
// order of what the library runs, and may return before they are done.
class Memory {
 public:
  virtual ~Memory() = default;

  // 64-byte aligned, never null, contents undefined. Throws OutOfMemory naming the bytes and `purpose`.
  virtual void* allocate(std::int64_t bytes, const char* purpose) = 0;
  // Whatever was enqueued before may still use it.
  virtual void release(void* pointer) noexcept = 0;

  virtual void clear(void* pointer, std::int64_t bytes) = 0;
  // Both lie here.
  virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
  // A few bytes (16 at most) of the host, free again when it returns: the learning rate of a step.
  virtual void put(void* to, const void* host, std::int64_t bytes) = 0;
  // A batch of the host, free again when it returns, as it can be read here. Good for what is enqueued before
  // the next call.
  virtual const void* land(const void* host, std::int64_t bytes) = 0;
  // Returns when the bytes are there.
  virtual void fetch(void* host, const void* from, std::int64_t bytes) = 0;

  // The host reads and writes it as its own.
  virtual bool is_host() const { return false; }
  // Named amounts in bytes, beside what the executors count: {"device_peak", ...}.
  virtual std::map<std::string, std::int64_t> usage() const { return {}; }
};

Memory& host_memory();

class Memory;

// 64-byte aligned, never empty, contents undefined until written. Throws OutOfMemory naming the bytes and
// `purpose`.
class Storage {
 public:
  Storage() = default;
  // Of the host.
  Storage(std::int64_t bytes, const char* purpose);
  // `memory` outlives it.
  Storage(Memory& memory, std::int64_t bytes, const char* purpose);

  void* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }
  // Zeroes it, which also makes the system back every page.
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
