// A window that slides over the last two dimensions of images (N, C, H, W), as the attributes of a node describe it.
#pragma once

#include <cstdint>

#include "harness/graph/attributes.hpp"

namespace assay {

// One dimension of a window.
struct WindowAxis {
  std::int64_t kernel = 1;             // elements
  std::int64_t stride = 1;             // from one window to the next
  std::int64_t before = 0, after = 0;  // the padding at both ends
  std::int64_t dilation = 1;           // from one element of the kernel to the next

  // From the first element of the kernel to the last one.
  std::int64_t extent() const { return (kernel - 1) * dilation + 1; }
  // floor((in + before + after - extent) / stride) + 1
  std::int64_t windows(std::int64_t in) const { return (in + before + after - extent()) / stride + 1; }
  bool operator==(const WindowAxis&) const = default;
};

struct SlidingWindow {
  WindowAxis rows, columns;
  bool operator==(const SlidingWindow&) const = default;
};

// From the attributes stride, padding and dilation (1 if it is absent). Each is one number, or a list: [rows, columns],
// and [top, left, bottom, right] for the padding. Throws GraphError unless each has one spelling: a list of equal numbers
// is written as a number, and a dilation of 1 not at all. Does not look at the numbers.
SlidingWindow sliding_window(const Attributes& attributes, std::int64_t kernel_rows,
                             std::int64_t kernel_columns);

// That of a pool, whose attribute kernel is one number or [rows, columns].
SlidingWindow pool_window(const Attributes& attributes);
// Whether the divisor of an average pool counts the padding: the attribute count_padding, true if it is absent. Throws
// GraphError if it is written as true.
bool counts_padding(const Attributes& attributes);

// The attribute groups of a convolution; 1 if it is absent. Throws GraphError if it is written as 1.
std::int64_t groups_of(const Attributes& attributes);

}  // namespace assay
