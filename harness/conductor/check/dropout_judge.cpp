#include "harness/conductor/check/dropout_judge.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/numerics.hpp"

namespace assay {
namespace {

constexpr std::string_view timed_prefix = "timed/";
// Each of the two programs may be as far from the oracle as the exam allows.
constexpr double both_programs = 2;
// The share of a gradient that elements within rounding of a tie may change. No bias was moved for the masks that a program
// draws: one element of N that falls on the other side of a ReLU moves a gradient by about 1 / sqrt(N).
constexpr double tie_share = 0.01;
constexpr double narrow_tie_share = 0.1;

// How a change of a gradient moves its mean, the root of its mean of squares, and the update in units of the
// update. With g' = g + d and a root r of at least sqrt(1 - decay) |g|, the root moves by at most
// sqrt(1 - decay) d, and (1 - beta1) g / r by at most (1 - beta1) / sqrt(1 - decay) of d / g.
struct Sensitivity {
  double mean = 1, root = 0, update = 1;
};

Sensitivity sensitivity_of(const OptimizerSpec& optimizer) {
  if (optimizer.kind == "sgd") return {};
  const double mean = optimizer.kind == "rmsprop" ? 1 : 1 - optimizer.beta1;
  const double root = std::sqrt(1 - optimizer.square_decay());
  return {mean, root, std::max(1.0, mean / root)};
}

// The answer of a worker for one tensor in one step.
struct Distance {
  double largest, l2, moved, size;
};

class Judge {
 public:
  Judge(const TensorFile& worker, const TensorFile& oracle, const Precision& precision, double repeats)
      : worker_(worker), oracle_(oracle), precision_(precision), repeats_(repeats) {}

  // `answer` is the tensor of the exam whose bound holds; `slack` what may come on top, by what the step moved.
  template <typename Slack>
  void add(const std::string& name, const std::string& answer, Slack slack) {
    const double relative = both_programs * relative_bound(answer);
    TensorVerdict least = beyond_all_measure(name);
    // A tie is in one step, a mistake in each.
    for (const Distance& distance : distances(name)) {
      const double allowed = relative * distance.size + slack(distance.moved);
      const double ratio = ratio_of(distance.l2, allowed);
      if (ratio < least.ratio) least = {least.name, distance.largest, allowed, distance.l2, allowed, ratio};
    }
    verdicts_.push_back(std::move(least));
  }

  // Forward passes have no ties: a ReLU and a max-pool are continuous. Each step counts.
  void add_loss() {
    const double relative = both_programs * relative_bound("first/loss");
    const HostTensor* found = worker_.find("timed/loss");
    TensorVerdict worst = beyond_all_measure("timed/loss");
    if (found != nullptr && found->type.shape.size() == 2 && found->type.shape[0] > 0 &&
        found->type.shape[1] == 2) {
      worst.ratio = 0;
      const std::vector<double> losses = to_doubles(*found);
      for (std::size_t i = 0; i < losses.size(); i += 2) {
        const double error = std::abs(losses[i] - losses[i + 1]);
        const double allowed = relative * std::abs(losses[i + 1]);
        const double ratio = ratio_of(error, allowed);
        if (ratio >= worst.ratio) worst = {worst.name, error, allowed, error, allowed, ratio};
      }
    }
    if (!std::isfinite(worst.max_error)) worst = beyond_all_measure("timed/loss");
    verdicts_.push_back(std::move(worst));
  }

  double gradient_norm(const std::string& parameter) const {
    return l2_norm(oracle_.required("gradient/" + parameter));
  }

  std::vector<TensorVerdict> take() { return std::move(verdicts_); }

 private:
  double relative_bound(const std::string& answer) const {
    std::vector<double> exact = oracle_.required(answer);
    const std::vector<double> seen = oracle_.required("bound/" + answer);
    if (answer.starts_with("first/moment/") && OptimizerSpec::is_square(answer.substr(answer.rfind('.') + 1)))
      for (double& value : exact) value = std::sqrt(value);
    return bound_of({seen.at(0), seen.at(1)}, exact, precision_, repeats_).l2;
  }

  // Empty if the worker wrote none, or wrote something else than distances.
  std::vector<Distance> distances(const std::string& name) const {
    const HostTensor* found = worker_.find(name);
    if (found == nullptr || found->type.shape.size() != 2 || found->type.shape[1] != 4) return {};
    const std::vector<double> numbers = to_doubles(*found);
    if (!std::ranges::all_of(numbers, [](double n) { return std::isfinite(n) && n >= 0; })) return {};
    std::vector<Distance> all;
    for (std::size_t i = 0; i < numbers.size(); i += 4)
      all.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
    return all;
  }

  const TensorFile& worker_;
  const TensorFile& oracle_;
  const Precision& precision_;
  double repeats_;
  std::vector<TensorVerdict> verdicts_{};
};

void judge_op(Judge& judge, const Program& program, Task task) {
  const auto no_slack = [](double) { return 0.0; };
  const Graph& graph = program.graph(task);
  for (const Graph::Output& output : graph.outputs())
    judge.add("timed/result/" + output.name, "result/" + output.name, no_slack);
  if (task != Task::train) return;
  for (const ValueId id : differentiated_inputs(program)) {
    const std::string& name = graph.value(id).name;
    judge.add("timed/gradient/" + name, "gradient/" + name, no_slack);
  }
}

void judge_network(Judge& judge, const Program& program, double share) {
  judge.add_loss();
  const Graph& graph = program.training;
  const Sensitivity sensitivity = sensitivity_of(program.optimizer);
  for (const ValueId id : graph.with_role(Role::parameter)) {
    const std::string& name = graph.value(id).name;
    judge.add("timed/" + name, "first/parameter/" + name,
              [&](double moved) { return share * sensitivity.update * moved; });
    const double gradient = judge.gradient_norm(name);
    for (const std::string& moment : program.optimizer.moments()) {
      const double factor = OptimizerSpec::is_square(moment) ? sensitivity.root : sensitivity.mean;
      judge.add("timed/" + name + "." + moment, "first/moment/" + name + "." + moment,
                [&](double) { return share * factor * gradient; });
    }
  }
  for (const ValueId id : graph.with_role(Role::state)) {
    const std::string& name = graph.value(id).name;
    judge.add("timed/" + name, "first/running/" + name, [](double) { return 0.0; });
  }
}

}  // namespace

std::vector<TensorVerdict> judge_timed_dropout(const TensorFile& worker, const TensorFile& oracle,
                                               const Program& program, Task task, const Precision& precision,
                                               double repeats) {
  const std::vector<std::string> names = worker.names();
  const bool reported =
      std::ranges::any_of(names, [](const std::string& name) { return name.starts_with(timed_prefix); });
  if (!reported) return {};
  Judge judge(worker, oracle, precision, repeats);
  if (program.is_op())
    judge_op(judge, program, task);
  else
    judge_network(judge, program, is_narrow(precision) ? narrow_tie_share : tie_share);
  return judge.take();
}

bool has_timed_dropout(const Equivalence& equivalence) {
  return std::ranges::any_of(
      equivalence.tensors, [](const TensorVerdict& tensor) { return tensor.name.starts_with(timed_prefix); });
}

}  // namespace assay
