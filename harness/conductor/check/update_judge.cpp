#include "harness/conductor/check/update_judge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "harness/conductor/check/optimizer_step.hpp"
#include "harness/conductor/check/tolerance.hpp"
#include "harness/conductor/check/touched_rows.hpp"

namespace assay {
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

}  // namespace assay
