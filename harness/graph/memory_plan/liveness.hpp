// When each value of a graph is alive, in steps of its node order. Pure functions, no device.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// Bytes of a value. A backend answers for its own formats and for what is opaque.
using ByteSize = std::function<std::int64_t(ValueId)>;
// The value's type, row-major; an opaque one (an argmax) counts 4 bytes for each element of its node's first
// result.
ByteSize plain_bytes(const Graph& graph);

// The nodes from `first` to `last`, both included, during which a value must keep its bits.
struct Lifetime {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
  bool operator==(const Lifetime&) const = default;
};

// One per value. An intermediate lives from its producer to its last reader; an output or the source of an
// update to the end, node graph.nodes().size(); what is fed or persistent lives throughout.
std::vector<Lifetime> liveness(const Graph& graph);

}  // namespace assay
