// The learning rates and the numbers of the steps of an exam.
#include <algorithm>
#include <cmath>

#include "harness/conductor/check/exam_contents.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

// From `low` to `high`, every order of magnitude equally often.
double log_uniform(Philox& random, double low, double high) {
  return low * std::pow(high / low, random.uniform_double());
}

}  // namespace

// Row 0 is the step that is judged by itself. SGD has no other state that shows its gradient, so its rate is so large
// that the parameter moves by as much as the gradient. That of Adam is so large that its update, and with it a small
// decay next to the gradient, is far above the rounding of the parameter.
// The other rows have different learning rates: large enough that an update is well above the rounding of the
// parameter, and small enough that the run does not solve the few samples (then all gradients are rounding) and stays
// finite (plain SGD on vgg_a, which has no norm). The second is near the first, and one of the later is below 1e-6.
// The number of the step in row 0, or that of the other rows in the next turn, is where Adam still corrects its bias,
// but not the first one. The other number is as in a long training: so large that a count which stops on the way shows
// (in fp16 one more than 2048 is 2048), and a little above a multiple of 2^16, so that a count which wraps is small.
HostTensor schedule_of(const Program& program, std::int64_t steps, std::uint64_t turn, std::uint64_t seed) {
  const bool sgd = program.optimizer && program.optimizer->kind == "sgd";
  const double base = sgd ? 0.0005 : 0.0001;
  const bool shows_gradient = sgd && program.optimizer->momentum == 0;
  // Libraries approximate the gates of an LSTM: next to a small mean of squares that error is a large update.
  const bool approximated = std::ranges::any_of(program.inference.nodes(),
                                                [](const Node& node) { return node.op->name() == "lstm"; });
  const bool large = contains(program.moments(), "m") && !approximated;
  HostTensor schedule = HostTensor::zeros("schedule", {DType::f64, {1 + steps, 2}});
  const std::span<double> rows = schedule.as<double>();
  Philox random(seed, "exam/schedule");
  const double many = 65536 * std::floor(log_uniform(random, 1, 15)) + 1 + std::floor(random.uniform(0, 200));
  const auto few = static_cast<double>(random.below(480));
  const double judged = turn % 2 == 0 ? many : 300 + std::floor(few / 2.4);
  const double first = turn % 2 == 0 ? 20 + few : many;
  const auto faint = 3 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(steps - 2)));
  for (std::int64_t row = 0; row <= steps; ++row) {
    const auto at = static_cast<std::size_t>(2 * row);
    rows[at] = row == 0       ? (shows_gradient ? 1
                                 : large        ? log_uniform(random, 0.01, 0.05)
                                                : base)
               : row == 2     ? rows[at - 2] * random.uniform(1.1, 1.3)
               : row == faint ? log_uniform(random, 1e-7, 1e-6)
                              : base * log_uniform(random, 0.2, 2);
    rows[at + 1] = row == 0 ? judged : first + static_cast<double>(row - 1);
  }
  return schedule;
}

}  // namespace assay
