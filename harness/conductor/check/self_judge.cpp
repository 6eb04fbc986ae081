#include "harness/conductor/check/self_judge.hpp"

#include <algorithm>
#include <cmath>

#include "harness/conductor/check/tolerance.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

constexpr double max_deviations = 6;    // exceeded by one correct draw in 5e8
constexpr double coarseness = 0x1p-14;  // of a generator's rate, and of counts kept in f32
// Two runs that move a tensor at random are apart by more than either moves.
constexpr double share_of_noise = 3;
// Two runs that began a rounding apart, or that round differently, may end farther apart than two others did.
constexpr double spread_factor = 6;

TensorVerdict judge(const std::string& name, const std::vector<double>& counts, double rate) {
  TensorVerdict verdict = beyond_all_measure(name);
  const double n = counts.at(3), in_rows = counts.at(5);
  if (!(n >= 1)) return verdict;
  const double kept = 1 - rate;
  const double same = kept * kept + rate * rate;
  struct Share {
    double count, of, expected;
  };
  const Share shares[] = {
      {counts[0], n, kept}, {counts[1], n, kept}, {counts[2], n, same}, {counts[4], in_rows, same}};
  verdict = {name, 0, 0, 0, 0, 0};
  for (const Share& share : shares) {
    if (share.of == 0) continue;  // a batch of one row has no two that could agree
    const double error = std::abs(share.count / share.of - share.expected);
    const double bound =
        max_deviations * std::sqrt(share.expected * (1 - share.expected) / share.of) + coarseness;
    if (error / bound < verdict.ratio) continue;
    verdict = {name, error, bound, error, bound, std::min(beyond_measure, error / bound)};
  }
  return verdict;
}

}  // namespace

std::vector<TensorVerdict> judge_draws(const TensorFile& worker, const Program& program, Task task) {
  std::vector<TensorVerdict> verdicts;
  const Graph& graph = program.training;
  if (task != Task::train && !program.is_op()) return verdicts;
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.inputs) {
      if (id == none || graph.value(id).role != Role::mask) continue;
      const std::string name = "draws/" + graph.value(id).name;
      verdicts.push_back(judge(name, worker.required(name), node.attributes.number("rate")));
    }
  }
  return verdicts;
}

namespace {

// What two runs may be apart in a tensor, as a share of the change by the steps, and whether only rounding moves it.
struct Drift {
  double share;
  bool noise;
  bool none = false;  // they must have the same bits
};

TensorVerdict apart(const std::string& name, const TensorFile& worker, const Drift& drift, double roundoff) {
  const HostTensor* found = worker.find(name);
  if (found == nullptr || found->type.elements() != 5) return beyond_all_measure(name);
  const std::vector<double> numbers = to_doubles(*found);
  const double largest = numbers[0], distance = numbers[1], moved = numbers[2], size = numbers[3],
               spread = numbers[4];
  // Where a gradient is more than rounding, no order of its sums undoes all that the steps changed.
  const double from_spread = drift.noise ? spread_factor * spread : std::min(spread_factor * spread, moved);
  const double allowed = drift.none ? 0 : drift.share * moved + from_spread + 8 * roundoff * size;
  for (const double number : numbers)
    if (!std::isfinite(number) || number < 0) return beyond_all_measure(name);
  return {name, largest, allowed, distance, allowed, ratio_of(distance, allowed)};
}

}  // namespace

std::vector<TensorVerdict> judge_continuation(const TensorFile& worker, const Program& program,
                                              const Precision& precision, const std::set<std::string>& noisy,
                                              bool deterministic) {
  const Graph& graph = program.training;
  std::vector<TensorVerdict> verdicts;
  const Drift usual{is_narrow(precision) ? 0.1 : 1e-2, false, deterministic},
      noise{share_of_noise, true, deterministic};
  const double roundoff = unit_roundoff(precision.master);
  const auto add = [&](const std::string& name, const Drift& drift) {
    verdicts.push_back(apart("continuation/" + name, worker, drift, roundoff));
  };
  for (const ValueId id : graph.with_role(Role::parameter)) {
    const std::string& name = graph.value(id).name;
    const Drift& drift = noisy.contains(name) ? noise : usual;
    add(name, drift);
    for (const std::string& moment : program.optimizer.moments()) add(name + "." + moment, drift);
  }
  for (const ValueId id : graph.with_role(Role::state)) add(graph.value(id).name, usual);
  return verdicts;
}

std::string first_not_finite(const TensorFile& worker, const Program& program) {
  const Graph& graph = program.training;
  for (const ValueId id : graph.with_role(Role::parameter)) {
    const std::string& name = graph.value(id).name;
    const HostTensor* found = worker.find("continuation/" + name);
    if (found == nullptr || found->type.elements() != 5) continue;
    if (!std::isfinite(to_doubles(*found)[3])) return name;
  }
  return {};
}

bool differs_only_after_run(const Equivalence& verified) {
  return std::ranges::none_of(verified.tensors, [](const TensorVerdict& tensor) {
    const bool after_run = tensor.name.starts_with("continuation/") || tensor.name.starts_with("replay/") ||
                           tensor.name.starts_with("loader/") || tensor.name == "state" ||
                           (tensor.name.starts_with("evaluation/") && tensor.name != "evaluation/logits");
    return tensor.ratio > 1 && !after_run;
  });
}

}  // namespace assay
