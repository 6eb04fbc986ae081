// Continues the timed run.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "harness/core/clock.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/worker/exam.hpp"

namespace assay {
namespace {

using State = std::vector<HostTensor>;

// More runs with pauses, if the first two runs differ: how far the program's roundings take it.
constexpr int spread_runs = 2;

// The elements of a tensor that the conductor reads, in F32.
HostTensor handed(const std::string& run, const HostTensor& tensor,
                  const std::optional<ExamExcerpt>& excerpt) {
  const std::int64_t size = tensor.type.elements();
  const std::int64_t first = excerpt ? excerpt->first(size) : 0,
                     count = excerpt ? excerpt->count(size) : size;
  HostTensor chosen = HostTensor::zeros("continuation/" + run + "/" + tensor.name,
                                        {DType::f32, excerpt ? Shape{count} : tensor.type.shape});
  const auto copy = [&](const auto& values) {
    std::ranges::transform(values.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                           chosen.as<float>().begin(), [](auto value) { return static_cast<float>(value); });
  };
  if (tensor.type.dtype == DType::f64)
    copy(tensor.as<double>());
  else
    copy(tensor.as<float>());
  return chosen;
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
  const State without_pause = executable.state();

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
  const auto hand_over = [&](const std::string& run, const State& state) {
    for (const HostTensor& tensor : state) answers.push_back(handed(run, tensor, feeds.excerpt));
  };
  hand_over("start", before);
  hand_over("unwaited", without_pause);
  hand_over("waited", with_pauses);
  const bool equal =
      std::ranges::equal(without_pause, with_pauses, {}, &HostTensor::bytes, &HostTensor::bytes);
  const bool all_equal = executable.agree(equal ? 1 : 0) == 1;
  for (int run = 0; !all_equal && run < spread_runs; ++run)
    hand_over(fmt::format("near_{}", run + 1), run_with_pauses(nudged(before, run)));
  return answers;
}

}  // namespace assay
