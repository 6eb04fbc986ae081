// Memory in the host's, whose allocation a subclass decides.
#pragma once

#include <cstdint>

#include "harness/engine/memory.hpp"

namespace assay {

class HostBackedMemory : public Memory {
 public:
  void clear(void* pointer, std::int64_t bytes) override { host_memory().clear(pointer, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes) override { host_memory().copy(to, from, bytes); }
  void put(void* to, const void* host, std::int64_t bytes) override { host_memory().put(to, host, bytes); }
  const void* land(const void* host, std::int64_t bytes) override { return host_memory().land(host, bytes); }
  void fetch(void* host, const void* from, std::int64_t bytes) override {
    host_memory().fetch(host, from, bytes);
  }
};

}  // namespace assay
