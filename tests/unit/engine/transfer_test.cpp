// From the host to a memory that the host cannot write.
#include "harness/engine/transfer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/unit/engine/forwarding_library.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay {
namespace {

using namespace testing;
using ::testing::ElementsAre;

// The host's memory in the place of a device's.
class DistantMemory final : public Memory {
 public:
  void* allocate(std::int64_t bytes, const char* purpose) override {
    return host_memory().allocate(bytes, purpose);
  }
  void release(void* pointer) noexcept override { host_memory().release(pointer); }
  void clear(void* pointer, std::int64_t bytes) override { host_memory().clear(pointer, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes) override { host_memory().copy(to, from, bytes); }
  void put(void* to, const void* host, std::int64_t bytes) override { host_memory().put(to, host, bytes); }
  const void* land(const void* host, std::int64_t bytes) override {
    landed.push_back(bytes);
    return host;
  }
  void fetch(void* host, const void* from, std::int64_t bytes) override {
    host_memory().fetch(host, from, bytes);
  }

  std::vector<std::int64_t> landed;
};

class DistantLibrary final : public ForwardingLibrary {
 public:
  DistantLibrary() : ForwardingLibrary(options("graph")) {}
  Memory& memory() const override { return memory_; }
  DistantMemory& distant() { return memory_; }

 private:
  mutable DistantMemory memory_;
};

TEST(Inlet, BringsALargeTensorInPieces) {
  constexpr std::int64_t piece = std::int64_t{32} << 20, bytes = 2 * piece + 12;
  DistantLibrary library;
  const TensorType type{DType::f32, {bytes / 4}};
  std::vector<float> host(static_cast<std::size_t>(bytes / 4));
  std::iota(host.begin(), host.end(), 0.0F);
  std::vector<float> target(host.size(), -1.0F);
  Inlet(library, type, library.plain(type), DType::f32).push(host.data(), target.data());
  EXPECT_TRUE(target == host);
  EXPECT_THAT(library.distant().landed, ElementsAre(piece, piece, 12));
}

}  // namespace
}  // namespace assay
