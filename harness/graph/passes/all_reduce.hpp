// Data parallelism over ranks: gradients become their means over the ranks, in buckets that overlap the backward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// A bucket is full when it has at least this many bytes (of f32). The first one, whose gradients are complete first, is
// smaller, so that the exchange begins early. The defaults are those of PyTorch's DistributedDataParallel.
struct BucketLimits {
  std::int64_t first = std::int64_t{1} << 20;
  std::int64_t next = 25 * (std::int64_t{1} << 20);
};

// Divides gradients into buckets in the order in which they are computed; returns indices into `gradients`. Every rank
// gets the same buckets, because all have the same graph.
std::vector<std::vector<std::size_t>> buckets(const Graph& graph, const std::vector<ValueId>& gradients,
                                              const BucketLimits& limits);

// Adds a pair of nodes all_reduce_start and all_reduce_wait for each bucket, and returns the means in the order of the
// gradients. A value that is there twice is exchanged once.
std::vector<ValueId> add_all_reduce(Graph& graph, const std::vector<ValueId>& gradients,
                                    const BucketLimits& limits);

// A copy in which each all_reduce_start is next to the node that computes the last of its gradients, and each
// all_reduce_wait is before the first reader of a mean. Starts keep their order, and so do all other nodes, except casts
// of gradients.
Graph with_overlap(const Graph& graph);

}  // namespace assay
