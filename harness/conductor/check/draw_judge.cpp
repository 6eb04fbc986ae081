#include "harness/conductor/check/draw_judge.hpp"

#include <cmath>

#include "harness/conductor/check/tolerance.hpp"

namespace assay {
namespace {

constexpr double deviations = 6;        // one honest draw in 5e8 is further off
constexpr double coarseness = 0x1p-14;  // of a generator's rate, and of counts kept in f32

TensorVerdict judge(const std::string& name, const std::vector<double>& counts, double rate) {
  TensorVerdict verdict{name, beyond_measure, 0, beyond_measure, 0, beyond_measure};
  const double n = counts.at(3);
  if (!(n >= 1)) return verdict;
  const double kept = 1 - rate;
  const double same = kept * kept + rate * rate;
  const double expected[] = {kept, kept, same};
  verdict = {name, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < 3; ++i) {
    const double error = std::abs(counts[i] / n - expected[i]);
    const double bound = deviations * std::sqrt(expected[i] * (1 - expected[i]) / n) + coarseness;
    if (error / bound < verdict.ratio) continue;
    verdict = {name, error, bound, error, bound, error / bound};
  }
  return verdict;
}

}  // namespace

std::vector<TensorVerdict> judge_draws(const TensorFile& worker, const Program& program) {
  std::vector<TensorVerdict> verdicts;
  const Graph& graph = program.training;
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.inputs) {
      if (id == none || graph.value(id).role != Role::mask) continue;
      const std::string name = "draws/" + graph.value(id).name;
      verdicts.push_back(judge("verify/" + name, worker.required(name), node.attributes.number("rate")));
    }
  }
  return verdicts;
}

}  // namespace assay
