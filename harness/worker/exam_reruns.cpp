// Continues the timed run.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "harness/core/clock.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/worker/exam.hpp"

namespace assay {
namespace {

using State = std::vector<HostTensor>;

// More runs with pauses, if the first two runs differ: how far the program's roundings take it.
constexpr int spread_runs = 2;

// The largest difference, its L2 norm, the norm of the change by the steps, the norm of the tensor, and room for
// the spread.
HostTensor distance(const HostTensor& before, const HostTensor& a, const HostTensor& b) {
  const std::vector<double> start = to_doubles(before), one = to_doubles(a), other = to_doubles(b);
  double largest = 0, apart = 0, moved = 0, size = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    largest = std::max(largest, std::abs(one[i] - other[i]));
    apart += (one[i] - other[i]) * (one[i] - other[i]);
    moved += (other[i] - start[i]) * (other[i] - start[i]);
    size += other[i] * other[i];
  }
  HostTensor numbers = HostTensor::zeros("continuation/" + a.name, {DType::f32, {5}});
  const double values[] = {largest, std::sqrt(apart), std::sqrt(moved), std::sqrt(size)};
  std::ranges::transform(values, numbers.as<float>().begin(), [](double v) { return static_cast<float>(v); });
  return numbers;
}

// A copy in which about half of the elements, drawn from the seed, are a rounding nearer to zero.
State nudged(State state, int seed) {
  for (HostTensor& tensor : state) {
    if (tensor.type.dtype != DType::f32) continue;  // f64 under fp64
    Philox random(static_cast<std::uint64_t>(seed), "exam/continuation/" + tensor.name);
    nudge(tensor.as<float>(), 2, random);
  }
  return state;
}

float l2_distance(const HostTensor& a, const HostTensor& b) {
  const std::vector<double> one = to_doubles(a), other = to_doubles(b);
  double apart = 0;
  for (std::size_t i = 0; i < one.size(); ++i) apart += (one[i] - other[i]) * (one[i] - other[i]);
  return static_cast<float>(std::sqrt(apart));
}

}  // namespace

std::vector<HostTensor> continue_run(Executable& executable, const ExamFeeds& feeds, std::int64_t first) {
  const ExamContinuation& asked = *feeds.continuation;
  const std::vector<std::int64_t>& slots = feeds.batches.slots;
  const auto enqueue = [&](std::int64_t step) {
    executable.step(slots[static_cast<std::size_t>(step) % slots.size()], feeds.learning_rate(1),
                    first + step);
  };
  const auto begin = std::chrono::steady_clock::now();
  enqueue(0);
  executable.synchronize();
  const std::int64_t steps = executable.agree(asked.steps(seconds_since(begin)));
  HostTensor loss = HostTensor::zeros("continuation/loss", {DType::f32, {}});
  loss.as<float>()[0] = static_cast<float>(executable.loss());

  const State before = executable.state();
  for (std::int64_t step = 1; step <= steps; ++step) enqueue(step);
  executable.synchronize();
  State without_pause = executable.state();

  const auto run_with_pauses = [&](const State& start) {
    executable.set_state(start);
    for (std::int64_t step = 1; step <= steps; ++step) {
      enqueue(step);
      executable.synchronize();
    }
    return executable.state();
  };
  const State with_pauses = run_with_pauses(before);
  HostTensor count = HostTensor::zeros("continuation/steps", {DType::f32, {}});
  count.as<float>()[0] = static_cast<float>(steps);
  State answers = {std::move(count), std::move(loss)};
  bool equal = true;
  for (std::size_t i = 0; i < before.size(); ++i) {
    answers.push_back(distance(before[i], without_pause[i], with_pauses[i]));
    equal = equal && answers.back().as<float>()[0] == 0;
  }
  without_pause.clear();
  const bool all_equal = executable.agree(equal ? 1 : 0) == 1;
  for (int run = 0; !all_equal && run < spread_runs; ++run) {
    const State near = run_with_pauses(nudged(before, run));
    for (std::size_t i = 0; i < near.size(); ++i) {
      float& spread = answers[2 + i].as<float>()[4];
      spread = std::max(spread, l2_distance(near[i], with_pauses[i]));
    }
  }
  return answers;
}

}  // namespace assay
