// Latencies of single steps in bounded memory.
#pragma once

#include <algorithm>

#include <cstdint>
#include <vector>

#include "harness/core/io/philox.hpp"

namespace assay {

// Keeps all latencies up to `capacity`, then a uniform sample of all (algorithm R, Vitter 1985). Allocates
// only in the constructor.
class Latencies {
 public:
  explicit Latencies(std::size_t capacity) : kept_(capacity), random_(0, "latencies") {}

  void add(std::int64_t nanoseconds) {
    const std::uint64_t at = seen_ < kept_.size() ? seen_ : random_.below(seen_ + 1);
    ++seen_;
    if (at < kept_.size()) kept_[at] = nanoseconds;
  }

  std::int64_t seen() const { return static_cast<std::int64_t>(seen_); }
  std::vector<std::int64_t> kept() const {
    return {kept_.begin(),
            kept_.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(seen_, kept_.size()))};
  }

 private:
  std::vector<std::int64_t> kept_;  // touched in the constructor, so that no page fault is measured
  std::uint64_t seen_ = 0;
  Philox random_;
};

}  // namespace assay
