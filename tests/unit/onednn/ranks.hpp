// A small network trained by one of several ranks, compared with one rank that has the whole batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/collectives/exchange.hpp"
#include "backends/onednn/library.hpp"
#include "harness/core/numerics.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "tests/unit/engine/programs.hpp"
#include "tests/unit/onednn/mistaken.hpp"

namespace assay::onednn::ranks {

using collectives::Exchange;
using collectives::Progress;

// Adam with a large epsilon: else it makes a whole step of a gradient that is only rounding.
inline OptimizerSpec optimizer_of(const std::string& kind) {
  return {.kind = kind, .momentum = 0.9, .epsilon = 1e-2};
}

struct Case {
  std::string workload = "lenet5";
  std::string mode = "graph";
  PrecisionKind precision = PrecisionKind::fp32;
  OptimizerSpec optimizer = optimizer_of("sgd");
  Progress progress = Progress::thread;
  std::int64_t batch = 24;  // of all ranks together
};

struct Trained {
  std::vector<HostTensor> state;
  std::vector<double> losses;
};

inline constexpr std::int64_t steps = 5, slots = 2;

// Several buckets, even in a small network.
inline constexpr BucketLimits buckets{.first = 1 << 10, .next = std::int64_t{100} << 10};

inline Program program_of(const Case& c, std::int64_t batch) {
  Program program = find_workload(c.workload).build(batch);
  program.optimizer = c.optimizer;
  return program;
}

// The rows of rank `rank` of `world`.
struct Rows {
  int rank = 0, world = 1;
};

// With these rows staged. One rank if `exchange` is null.
inline std::unique_ptr<KernelExecutable> executable_of(const Case& c,
                                                       const std::shared_ptr<Exchange>& exchange,
                                                       const Rows& rows) {
  CompileOptions options = assay::testing::options(c.mode, c.precision, 1);
  options.rank = exchange ? exchange->rank() : 0;
  options.world = exchange ? exchange->world() : 1;
  options.buckets = buckets;
  const Program whole = program_of(c, c.batch), own = program_of(c, c.batch / rows.world);
  auto executable =
      std::make_unique<KernelExecutable>(own, options, make_kernel_library_of_ranks(options, exchange));
  executable->set_state(assay::testing::parameters(own, 1));
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const assay::testing::Batch all = assay::testing::batch(whole, static_cast<std::uint64_t>(slot));
    const std::size_t inputs = all.inputs.size() / static_cast<std::size_t>(rows.world),
                      labels = all.labels.size() / static_cast<std::size_t>(rows.world),
                      at = static_cast<std::size_t>(rows.rank);
    executable->stage(slot, {all.inputs.data() + at * inputs, all.labels.data() + at * labels});
  }
  return executable;
}

inline Trained trained_by(KernelExecutable& executable) {
  Trained trained;
  for (std::int64_t step = 0; step < steps; ++step) {
    executable.step(step % slots, 1e-2, step + 1);
    trained.losses.push_back(executable.loss());
  }
  trained.state = executable.state();
  return trained;
}

// Trains on the rows of one rank; on all of them if `exchange` is null.
inline Trained train(const Case& c, const std::shared_ptr<Exchange>& exchange) {
  const Rows rows = exchange ? Rows{exchange->rank(), exchange->world()} : Rows{};
  return trained_by(*executable_of(c, exchange, rows));
}

// The largest difference of an element, over the largest element of its tensor; and the tensor's name.
struct Distance {
  double value = 0;
  std::string tensor;
};

inline Distance distance(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  Distance worst;
  for (std::size_t t = 0; t < a.size(); ++t) {
    const std::vector<double> one = to_doubles(a[t]), other = to_doubles(b[t]);
    double apart = 0, largest = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
      const double difference = std::abs(one[i] - other[i]);
      apart = std::max(apart, std::isfinite(difference) ? difference : HUGE_VAL);
      largest = std::max(largest, std::abs(other[i]));
    }
    if (apart > worst.value * largest) worst = {apart / largest, a[t].name};
  }
  return worst;
}

// Of a distance. fp32: sums in another order; the worst is the second moment of a bias, whose gradient nearly cancels
// (8e-6). The mistakes below are further than 0.03.
inline double bound(PrecisionKind precision) { return precision == PrecisionKind::fp32 ? 3e-5 : 2e-3; }

// Of all bits of a state.
inline std::int64_t digest(const std::vector<HostTensor>& state) {
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (const HostTensor& tensor : state) {
    for (const std::byte byte : tensor.bytes)
      sum = (sum ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3U;
  }
  return static_cast<std::int64_t>(sum >> 1);
}

}  // namespace assay::onednn::ranks
