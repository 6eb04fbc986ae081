#include "harness/conductor/check/update_judge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/graph/op.hpp"

namespace assay {

OptimizerElement optimizer_step(const OptimizerSpec& optimizer, const OptimizerElement& before,
                                double gradient, double learning_rate, std::int64_t step) {
  const double g = gradient + optimizer.weight_decay * before.parameter;
  OptimizerElement after = before;
  if (optimizer.kind == "sgd") {
    const double velocity = optimizer.momentum * before.moments[0] + g;
    if (optimizer.momentum != 0) after.moments[0] = velocity;
    after.parameter -= learning_rate * velocity;
  } else if (optimizer.kind == "rmsprop") {
    after.moments[0] = optimizer.decay * before.moments[0] + (1 - optimizer.decay) * g * g;
    after.parameter -= learning_rate * g / (std::sqrt(after.moments[0]) + optimizer.epsilon);
  } else if (optimizer.kind == "adam" || optimizer.kind == "lazy_adam") {
    const double t = static_cast<double>(step);
    after.moments[0] = optimizer.beta1 * before.moments[0] + (1 - optimizer.beta1) * g;
    after.moments[1] = optimizer.beta2 * before.moments[1] + (1 - optimizer.beta2) * g * g;
    const double m = after.moments[0] / (1 - std::pow(optimizer.beta1, t));
    const double v = after.moments[1] / (1 - std::pow(optimizer.beta2, t));
    after.parameter -= learning_rate * m / (std::sqrt(v) + optimizer.epsilon);
  } else {
    throw GraphError(
        fmt::format("'{}' is no optimizer that the check knows; known are sgd, rmsprop, adam, lazy_adam",
                    optimizer.kind));
  }
  return after;
}

std::vector<bool> touched_rows(const std::filesystem::path& cell_folder, const Program& program,
                               ValueId parameter) {
  if (program.optimizer.kind != "lazy_adam") return {};
  const Graph& graph = program.training;
  for (const Node& node : graph.nodes()) {
    if (node.op->name() != "embedding" || node.inputs[1] != parameter) continue;
    if (!node.attributes.get_or("sparse_gradient", false)) return {};
    const std::filesystem::path path = cell_folder / "check" / "inputs.npy";
    const HostTensor tokens = read_npy(path);
    if (node.inputs[0] != graph.find("inputs") || tokens.type.dtype != DType::i32)
      throw CellError(fmt::format("[check] {}: the tokens that '{}' looks up are not the inputs {}",
                                  path.string(), node.name, to_string(tokens.type)));
    std::vector<bool> touched(static_cast<std::size_t>(graph.value(parameter).type.shape.front()));
    for (const std::int32_t token : tokens.as<std::int32_t>()) {
      if (token >= 0 && static_cast<std::size_t>(token) < touched.size())
        touched[static_cast<std::size_t>(token)] = true;
    }
    return touched;
  }
  return {};
}

namespace {

// How much of an update the rounding of the hyper-parameters may cost: 1 - beta2 loses three digits when
// beta2 is rounded first.
double hyper_parameter_slack(const OptimizerSpec& optimizer, double roundoff) {
  double slack = 8 * roundoff;
  if (optimizer.kind == "adam" || optimizer.kind == "lazy_adam")
    slack += roundoff / (1 - optimizer.beta1) + roundoff / (1 - optimizer.beta2);
  if (optimizer.kind == "rmsprop") slack += roundoff / (1 - optimizer.decay);
  return slack;
}

// One of the tensors that an update makes, element by element against its bound.
class UpdateVerdict {
 public:
  void add(double got, double expected, double bound) {
    const double error = std::abs(got - expected);
    const double ratio = error == 0 ? 0 : std::min(beyond_measure, error / bound);
    if (ratio > worst_ || bound_ == 0) {
      worst_ = std::max(worst_, ratio);
      error_ = error;
      bound_ = bound;
    }
    error_squares_ += error * error;
    bound_squares_ += bound * bound;
    squares_ += expected * expected;
  }
  TensorVerdict verdict(std::string name) const {
    const double scale = squares_ > 0 ? std::sqrt(squares_) : 1;
    return {
        std::move(name), error_, bound_, std::sqrt(error_squares_) / scale, std::sqrt(bound_squares_) / scale,
        worst_};
  }

 private:
  double worst_ = 0, error_ = 0, bound_ = 0;
  double error_squares_ = 0, bound_squares_ = 0, squares_ = 0;
};

}  // namespace

std::vector<TensorVerdict> judge_updates(const std::filesystem::path& cell_folder, const TensorFile& oracle,
                                         const TensorFile& worker, const Program& program,
                                         const Precision& precision, double repeats) {
  const TensorFile old_state = TensorFile::read(cell_folder / "check" / "parameters.safetensors");
  const std::vector<double> schedule = TensorFile::read_array(cell_folder / "check" / "schedule.npy");
  const double learning_rate = schedule.at(0);
  const auto step = static_cast<std::int64_t>(schedule.at(1));
  OptimizerSpec optimizer = program.optimizer;
  const double roundoff = unit_roundoff(precision.master);
  const double slack = hyper_parameter_slack(optimizer, roundoff);
  const std::vector<std::string> moments = optimizer.moments();

  std::vector<TensorVerdict> verdicts;
  for (const ValueId id : program.training.with_role(Role::parameter)) {
    const std::string& name = program.training.value(id).name;
    optimizer.weight_decay = program.optimizer.decay_of(program.training.value(id).type.shape);
    const std::vector<double> old = old_state.required(name);
    const std::vector<double> gradient = worker.required("gradient/" + name);
    const std::vector<double> seen = oracle.required("bound/check/gradient/" + name);
    const double unsure =
        bound_of({seen.at(0), seen.at(1)}, oracle.required("check/gradient/" + name), precision, repeats).max;
    const std::vector<double> updated = worker.required("updated/" + name);
    std::vector<std::vector<double>> new_moments, old_moments;
    for (const std::string& moment : moments) {
      new_moments.push_back(worker.required("updated/" + name + "." + moment));
      old_moments.push_back(old_state.find(name + "." + moment) == nullptr
                                ? std::vector<double>(old.size())
                                : old_state.required(name + "." + moment));
    }

    const std::vector<bool> touched = touched_rows(cell_folder, program, id);
    const std::size_t row = touched.empty() ? 1 : old.size() / touched.size();
    UpdateVerdict parameter_verdict;
    std::array<UpdateVerdict, 2> moment_verdicts;
    for (std::size_t i = 0; i < old.size(); ++i) {
      if (!touched.empty() && !touched[i / row]) {  // to the bit
        parameter_verdict.add(updated[i], old[i], 0);
        for (std::size_t m = 0; m < new_moments.size(); ++m)
          moment_verdicts[m].add(new_moments[m][i], old_moments[m][i], 0);
        continue;
      }
      const auto after = [&](double g) {
        OptimizerElement before{old[i], {}};
        for (std::size_t m = 0; m < old_moments.size(); ++m) before.moments[m] = old_moments[m][i];
        return optimizer_step(optimizer, before, g, learning_rate, step);
      };
      const OptimizerElement expected = after(gradient[i]);
      const OptimizerElement low = after(gradient[i] - unsure);
      const OptimizerElement high = after(gradient[i] + unsure);
      const auto spread = [](double at, double a, double b) {
        return std::max(std::abs(a - at), std::abs(b - at));
      };

      const double change = std::abs(expected.parameter - old[i]);
      parameter_verdict.add(updated[i], expected.parameter,
                            2 * roundoff * std::abs(old[i]) + slack * change +
                                spread(expected.parameter, low.parameter, high.parameter));
      for (std::size_t m = 0; m < new_moments.size(); ++m) {
        moment_verdicts[m].add(new_moments[m][i], expected.moments[m],
                               slack * std::abs(expected.moments[m]) +
                                   spread(expected.moments[m], low.moments[m], high.moments[m]));
      }
    }
    verdicts.push_back(parameter_verdict.verdict("check/updated/" + name));
    for (std::size_t m = 0; m < moments.size(); ++m) {
      verdicts.push_back(moment_verdicts[m].verdict("check/updated/" + name + "." + moments[m]));
    }
  }
  return verdicts;
}

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
