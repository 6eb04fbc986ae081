#include "harness/conductor/check/dropout_judge.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/numerics.hpp"

namespace assay {
namespace {

constexpr std::string_view timed_prefix = "timed/";
// The steps that a worker hands over.
constexpr std::int64_t max_kept_steps = 2;
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

// How far the programs are apart in one tensor after one step.
struct Distance {
  double largest, l2, moved, size;
};

// `start` is empty if the tensor began as zeros.
Distance distance_of(std::span<const double> start, std::span<const double> drawn,
                     std::span<const double> taken) {
  double largest_error = 0, error = 0, moved = 0;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const double apart = std::abs(drawn[i] - taken[i]), way = taken[i] - (start.empty() ? 0 : start[i]);
    largest_error = std::max(largest_error, apart);
    error += apart * apart;
    moved += way * way;
  }
  return {largest_error, std::sqrt(error), std::sqrt(moved), l2_norm(taken)};
}

void take_roots_of(std::vector<double>& values) {
  for (double& value : values) value = std::sqrt(value);
}

class Judge {
 public:
  Judge(const TensorFile& worker, const TensorFile& oracle, const TensorFile& start,
        const Precision& precision, double repeats, const std::optional<ExamExcerpt>& excerpt)
      : worker_(worker),
        oracle_(oracle),
        start_(start),
        precision_(precision),
        repeats_(repeats),
        excerpt_(excerpt) {}

  // `answer` is the tensor of the exam whose bound holds; `slack` what may come on top, by what the step moved.
  template <typename Slack>
  void add(const std::string& tensor, const Shape& shape, const std::string& answer, Slack slack) {
    const double relative = both_programs * relative_bound(answer);
    TensorVerdict least = beyond_all_measure("timed/" + tensor);
    // A tie is in one step, a mistake in each.
    for (const Distance& distance : distances(tensor, shape, is_square(answer))) {
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

  // Of the elements that are judged.
  double gradient_norm(const std::string& parameter) const {
    return l2_norm(oracle_.required("gradient/" + parameter, excerpt_));
  }

  std::vector<TensorVerdict> take() { return std::move(verdicts_); }

 private:
  static bool is_square(const std::string& answer) {
    return answer.starts_with("first/moment/") &&
           OptimizerSpec::is_square(answer.substr(answer.rfind('.') + 1));
  }
  double relative_bound(const std::string& answer) const {
    std::vector<double> exact = oracle_.required(answer);
    const std::vector<double> seen = oracle_.required("bound/" + answer);
    if (is_square(answer)) take_roots_of(exact);
    return bound_of({seen.at(0), seen.at(1)}, exact, precision_, repeats_).l2;
  }

  // In each step; empty if the worker handed over none, or other tensors. of_roots: of a mean of squares.
  std::vector<Distance> distances(const std::string& tensor, const Shape& shape, bool of_roots) const {
    const std::string names[] = {"timed/drawn/" + tensor, "timed/taken/" + tensor};
    const HostTensor* first = worker_.find(names[0]);
    if (first == nullptr || first->type.shape.empty() || first->type.shape[0] < 1 ||
        first->type.shape[0] > max_kept_steps)
      return {};
    const std::int64_t elements = TensorType{DType::f32, shape}.elements();
    Shape handed = excerpt_ ? Shape{excerpt_->count(elements)} : shape;
    handed.insert(handed.begin(), first->type.shape[0]);
    for (const std::string& name : names)
      if (!worker_.refusal(name, {DType::f32, handed}).empty()) return {};
    std::vector<double> drawn = worker_.required(names[0]), taken = worker_.required(names[1]), start;
    if (start_.find(tensor) != nullptr) start = start_.required(tensor, excerpt_);
    if (of_roots)
      for (std::vector<double>* values : {&drawn, &taken, &start}) take_roots_of(*values);
    std::vector<Distance> all;
    const std::size_t size = drawn.size() / static_cast<std::size_t>(handed[0]);
    for (std::size_t at = 0; at < drawn.size(); at += size) {
      const Distance distance =
          distance_of(start, std::span(drawn).subspan(at, size), std::span(taken).subspan(at, size));
      if (!std::isfinite(distance.l2)) return {};  // the root of a negative mean of squares
      all.push_back(distance);
    }
    return all;
  }

  const TensorFile& worker_;
  const TensorFile& oracle_;
  const TensorFile& start_;
  const Precision& precision_;
  double repeats_;
  const std::optional<ExamExcerpt>& excerpt_;
  std::vector<TensorVerdict> verdicts_{};
};

void judge_op(Judge& judge, const Program& program, Task task) {
  const auto no_slack = [](double) { return 0.0; };
  const Graph& graph = program.graph(task);
  for (const Graph::Output& output : graph.outputs())
    judge.add("result/" + output.name, graph.value(output.value).type.shape, "result/" + output.name,
              no_slack);
  if (task != Task::train) return;
  for (const ValueId id : differentiated_inputs(program)) {
    const Value& input = graph.value(id);
    judge.add("gradient/" + input.name, input.type.shape, "gradient/" + input.name, no_slack);
  }
}

void judge_network(Judge& judge, const Program& program, double share) {
  judge.add_loss();
  const Graph& graph = program.inference;
  const Sensitivity sensitivity = sensitivity_of(program.optimizer.value());
  for (const ValueId id : graph.with_role(Role::parameter)) {
    const std::string& name = graph.value(id).name;
    const Shape& shape = graph.value(id).type.shape;
    judge.add(name, shape, "first/parameter/" + name,
              [&](double moved) { return share * sensitivity.update * moved; });
    const double gradient = judge.gradient_norm(name);
    for (const std::string& moment : program.moments()) {
      const double factor = OptimizerSpec::is_square(moment) ? sensitivity.root : sensitivity.mean;
      judge.add(name + "." + moment, shape, "first/moment/" + name + "." + moment,
                [&](double) { return share * factor * gradient; });
    }
  }
  for (const ValueId id : graph.with_role(Role::state)) {
    const Value& value = graph.value(id);
    judge.add(value.name, value.type.shape, "first/running/" + value.name, [](double) { return 0.0; });
  }
}

}  // namespace

std::vector<TensorVerdict> judge_timed_dropout(const TensorFile& worker, const TensorFile& oracle,
                                               const TensorFile& start, const Program& program, Task task,
                                               const Precision& precision, double repeats,
                                               const std::optional<ExamExcerpt>& excerpt) {
  const std::vector<std::string> names = worker.names();
  const bool reported =
      std::ranges::any_of(names, [](const std::string& name) { return name.starts_with(timed_prefix); });
  if (!reported) return {};
  Judge judge(worker, oracle, start, precision, repeats, excerpt);
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
