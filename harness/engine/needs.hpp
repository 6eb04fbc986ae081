// Which kernels of a list must wait for which others, by the bytes that they use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace assay {

struct Bytes {
  const void* begin = nullptr;
  std::int64_t count = 0;
};

// What a kernel uses: its operands and results, its scratch, and what else it must have for itself.
struct Touched {
  std::vector<Bytes> read, written;

  // Also all that the other one uses.
  void add(const Touched& other);
};

// Whether a kernel must wait for an earlier one: for one that wrote what it reads or writes, or read what it writes.
bool must_wait(const Touched& later, const Touched& earlier);

// By kernel of a list, in ascending order: the earlier kernels that must have ended when it begins. A kernel that one of
// these waits for itself is not named. Empty: each waits for the one before.
using Needs = std::vector<std::vector<std::size_t>>;

Needs needs_of(std::span<const Touched> kernels);

}  // namespace assay
