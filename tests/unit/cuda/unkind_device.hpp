// A device on the host that does what a GPU may do, and the plain host does not: work is late, fresh memory is NaN,
// released memory is gone, landed batches are gone with the next one, and there are walls around each allocation.
// A recording forbids what the capture of a CUDA graph forbids.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/device.hpp"
#include "backends/cuda/host/host_launch.hpp"
#include "backends/cuda/own_lstm.hpp"
#include "backends/cuda/own_products.hpp"
#include "backends/cuda/workspace.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

// What the memory of an UnkindDevice has seen; outlives the device.
struct Unkindness {
  std::int64_t fail_at = -1;  // the allocation that finds no memory, counted from 0; -1: none
  std::int64_t allocations = 0;
  std::int64_t held = 0;  // not released
  std::vector<std::string> faults;
};

class UnkindDevice final : public Device {
 public:
  explicit UnkindDevice(Unkindness& seen) : memory_(*this, seen) { stream_.late = &late_; }
  ~UnkindDevice() override { run_late_work(); }

  Memory& memory() override { return memory_; }
  Stream stream() override { return {&stream_}; }
  std::unique_ptr<Matmul> matmul(const MatmulSpec& spec) override {
    return make_own_matmul(spec, stream(), "own:product");
  }
  std::shared_ptr<Convolution> convolution(const ConvolutionSpec& spec) override {
    return make_own_convolution(spec, stream(), "own:product");
  }
  std::shared_ptr<Lstm> lstm(const LstmSpec& spec) override {
    std::shared_ptr<Lstm>& known = lstms_[spec];
    if (known == nullptr) known = make_own_lstm(spec, *this);
    return known;
  }
  Calls& calls() override { throw std::logic_error("this device has no calls"); }

  // Each run enqueues what was recorded, with the pointers of then.
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue, std::size_t min_nodes) override {
    Work recorded = std::exchange(late_, {});
    records_ = true;
    try {
      enqueue();
    } catch (...) {
      records_ = false;
      late_ = std::move(recorded);
      throw;
    }
    records_ = false;
    std::swap(late_, recorded);
    if (recorded.size() < min_nodes) return nullptr;
    return std::make_unique<Graph>(*this, std::move(recorded));
  }
  void synchronize() override {
    forbid_while_recording("synchronize");
    run_late_work();
  }

 private:
  using Work = std::vector<std::function<void()>>;

  class Graph final : public Recording {
   public:
    Graph(UnkindDevice& device, Work work) : device_(device), work_(std::move(work)) {}
    void run() override { device_.late_.insert(device_.late_.end(), work_.begin(), work_.end()); }

   private:
    UnkindDevice& device_;
    Work work_;
  };

  class UnkindMemory final : public Memory {
   public:
    UnkindMemory(UnkindDevice& device, Unkindness& seen) : device_(device), seen_(seen) {}
    ~UnkindMemory() override {
      for (const auto& [pointer, block] : blocks_) check_walls(pointer, block);
    }
    std::int64_t alignment() const override { return workspace_alignment; }

    void* allocate(std::int64_t bytes, const char* purpose) override {
      device_.forbid_while_recording("allocate");
      if (seen_.allocations++ == seen_.fail_at) throw OutOfMemory(std::string("no memory for ") + purpose);
      ++seen_.held;
      return make(bytes);
    }
    // Other work of the stream may still use it.
    void release(void* pointer) noexcept override {
      --seen_.held;
      enqueue([this, pointer] { spoil(pointer); });
    }
    void clear(void* pointer, std::int64_t bytes) override {
      enqueue([=] { std::memset(pointer, 0, static_cast<std::size_t>(bytes)); });
    }
    void copy(void* to, const void* from, std::int64_t bytes) override {
      enqueue([=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
    }
    void put(void* to, const void* host, std::int64_t bytes) override {
      enqueue([to, kept = kept(host, bytes)] { std::memcpy(to, kept.data(), kept.size()); });
    }
    const void* land(const void* host, std::int64_t bytes) override {
      device_.forbid_while_recording("land a batch");
      if (landed_ != nullptr) enqueue([this, gone = landed_] { spoil(gone); });
      landed_ = make(bytes);
      put(landed_, host, bytes);
      return landed_;
    }
    void fetch(void* host, const void* from, std::int64_t bytes) override {
      device_.synchronize();
      std::memcpy(host, from, static_cast<std::size_t>(bytes));
    }

   private:
    static constexpr std::size_t wall = 256;
    static constexpr int brick = 0xa5, nan = 0xff;
    struct Block {
      std::unique_ptr<std::uint8_t[], void (*)(void*)> bytes{nullptr, std::free};
      std::size_t used = 0;
    };

    static std::vector<std::uint8_t> kept(const void* host, std::int64_t bytes) {
      const auto* const first = static_cast<const std::uint8_t*>(host);
      return {first, first + bytes};
    }
    void enqueue(std::function<void()> work) { device_.late_.push_back(std::move(work)); }

    void* make(std::int64_t bytes) {
      Block block;
      block.used = static_cast<std::size_t>(bytes);
      const std::size_t whole = (block.used + wall - 1) / wall * wall + 2 * wall;
      block.bytes.reset(static_cast<std::uint8_t*>(std::aligned_alloc(wall, whole)));
      if (block.bytes == nullptr) throw OutOfMemory("no memory for a test");
      std::memset(block.bytes.get(), brick, whole);
      std::uint8_t* const pointer = block.bytes.get() + wall;
      std::memset(pointer, nan, block.used);
      blocks_.emplace(pointer, std::move(block));
      return pointer;
    }
    // Its numbers become NaN; nobody else gets it.
    void spoil(void* pointer) {
      const Block& block = blocks_.at(pointer);
      check_walls(pointer, block);
      std::memset(pointer, nan, block.used);
    }
    void check_walls(const void* pointer, const Block& block) {
      const auto* const first = static_cast<const std::uint8_t*>(pointer);
      const std::size_t room = (block.used + wall - 1) / wall * wall;
      bool whole = true;
      for (std::size_t i = 1; i <= wall; ++i)
        whole = whole && first[-static_cast<std::ptrdiff_t>(i)] == brick;
      for (std::size_t i = block.used; i < room + wall; ++i) whole = whole && first[i] == brick;
      if (!whole)
        seen_.faults.push_back("bytes next to " + std::to_string(block.used) + " bytes were written");
    }

    UnkindDevice& device_;
    Unkindness& seen_;
    std::map<const void*, Block> blocks_;
    void* landed_ = nullptr;
  };

  void forbid_while_recording(const char* what) const {
    if (records_) throw std::logic_error(std::string("a recording cannot ") + what);
  }
  void run_late_work() {
    // Work may not enqueue more, but the list may be appended to by a destructor that runs meanwhile.
    const Work work = std::exchange(late_, {});
    for (const std::function<void()>& one : work) one();
  }

  Work late_;
  HostStream stream_;
  bool records_ = false;
  UnkindMemory memory_;
  std::map<LstmSpec, std::shared_ptr<Lstm>> lstms_;
};

}  // namespace assay::cuda
