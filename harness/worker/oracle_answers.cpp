#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

#include "harness/core/error.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/numerics.hpp"
#include "harness/graph/passes/walk.hpp"
#include "harness/worker/exam.hpp"
#include "harness/worker/kinks.hpp"
#include "harness/worker/sharpen.hpp"

namespace assay {
namespace {

using Values = std::map<std::string, std::vector<double>>;  // by the name of the answer

HostTensor as_f64(const HostTensor& tensor) {
  HostTensor result = HostTensor::zeros(tensor.name, {DType::f64, tensor.type.shape});
  const std::vector<double> values = to_doubles(tensor);
  std::copy(values.begin(), values.end(), result.as<double>().begin());
  return result;
}

bool corrects_bias(const OptimizerSpec& optimizer) {
  return optimizer.kind == "adam" || optimizer.kind == "adamw" || optimizer.kind == "lazy_adam";
}

// The most unit roundoffs that a value is moved by: a neighbouring number is then as likely as the value itself.
constexpr double perturbed_roundings = 2;
// The same, for the gates of an LSTM: fast approximations of the exponential are off by some roundings.
constexpr double gate_roundings = 4;
// The same, to move elements to the other side of a tie. sharpen() keeps those of the first step further away.
constexpr double tipping_roundings = 10;
// For the steps after the first: about as far as the judge allows an error of a value to be, which is 8 sqrt(B/b)
// times what perturbed runs show.
constexpr double far_tipping_roundings = 80;
constexpr int far_pairs = 2;
// With more elements of ReLUs and max-pools than this in all steps of an exam, runs are long, and the perturbed ones
// show whether any is near a tie.
constexpr std::int64_t many_elements = 10'000'000;

// The exam's feeds with every value moved by up to `roundings` unit roundoffs, and with the samples in another
// order. With -roundings and the same run, every value is moved as far in the other direction.
class Perturbation {
 public:
  Perturbation(const ExamFeeds& feeds, const Program& program, const Answers& answers,
               const Precision& precision, std::uint64_t seed, int run,
               double roundings = perturbed_roundings)
      : random_(seed, fmt::format("perturbation/{}", run)),
        roundings_(roundings),
        feeds_(feeds),
        order_(static_cast<std::size_t>(feeds.batches.distinct)) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    random_.shuffle(std::span(order_));

    const double storage = precision.tf32 ? 0x1p-11 : unit_roundoff(precision.storage);
    const double master = unit_roundoff(precision.master);
    for (HostTensor& tensor : feeds_.state) {
      const ValueId id = program.training.find(tensor.name);
      if (id == none) continue;  // a moment: its initial value would dominate the difference
      const bool parameter = program.training.value(id).role == Role::parameter;
      move(tensor.as<float>(), parameter ? storage : master);
      if (is_operand(program.training, id, "lstm", 3)) move_gates(tensor.as<float>(), master);
    }
    if (corrects_bias(program.optimizer)) move_rates(master);
    for (std::int64_t batch = 0; batch < feeds.batches.count(); ++batch) {
      permute(feeds.inputs, feeds_.inputs, batch);
      permute(feeds.labels, feeds_.labels, batch);
    }
    for (std::size_t m = 0; m < feeds_.masks.size(); ++m) permute(feeds.masks[m], feeds_.masks[m], 0);
    for (const std::span<float> values : answers.real_inputs(feeds_.inputs)) move(values, storage);
  }

  const ExamFeeds& feeds() const { return feeds_; }
  // Rows of an answer, of one or more batches, in the order of the unperturbed rows.
  std::vector<double> ordered(const std::vector<double>& rows, std::int64_t batches = 1) const {
    std::vector<double> result(rows.size());
    const std::size_t row = rows.size() / (order_.size() * static_cast<std::size_t>(batches));
    for (std::size_t first = 0; first < rows.size(); first += row * order_.size()) {
      for (std::size_t r = 0; r < order_.size(); ++r) {
        std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(first + r * row), row,
                    result.begin() + static_cast<std::ptrdiff_t>(first + order_[r] * row));
      }
    }
    return result;
  }

 private:
  // Reorders the samples of a batch; a sample keeps its mask.
  void permute(const HostTensor& from, HostTensor& to, std::int64_t batch) const {
    const std::size_t row = from.bytes.size() / static_cast<std::size_t>(from.type.shape.front());
    const std::size_t first = static_cast<std::size_t>(batch) * order_.size();
    for (std::size_t r = 0; r < order_.size(); ++r) {
      std::copy_n(from.bytes.begin() + static_cast<std::ptrdiff_t>((first + order_[r]) * row), row,
                  to.bytes.begin() + static_cast<std::ptrdiff_t>((first + r) * row));
    }
  }

  // Changes all by one factor: a beta2 of 0.999 in f32 has an error of 1.3e-8. After t steps the root of 1 -
  // beta2^t, and with it every update, has an error of 3e-6 to 7e-6.
  void move_rates(double roundoff) {
    const double factor = 1 + std::copysign(64.0, roundings_) * random_.uniform(-1, 1) * roundoff;
    const std::span<double> rows = feeds_.schedule.as<double>();
    for (std::size_t row = 0; row < rows.size(); row += 2) rows[row] *= factor;
  }

  // Moves the input, forget and output gates of an LSTM by up to some roundings of the gate, all in one direction:
  // the error of an approximated sigmoid is the same in each step, and the cell adds it up over the sequence. The
  // slope of a gate s is s (1 - s), so a share of s is moved by that share over 1 - s = 1 / (1 + exp(bias)).
  void move_gates(std::span<float> bias, double roundoff) {
    const std::size_t units = bias.size() / 4;
    const double direction =
        std::copysign(gate_roundings / perturbed_roundings * roundings_, random_.uniform(-1, 1));
    for (const std::size_t gate : {0, 1, 3})  // 2 is the candidate
      for (float& value : bias.subspan(gate * units, units))
        value += static_cast<float>(direction * random_.uniform() * roundoff * (1 + std::exp(value)));
  }

  void move(std::span<float> values, double roundoff) {
    for (float& value : values) {
      value = static_cast<float>(value * (1 + roundings_ * random_.uniform(-1, 1) * roundoff));
    }
  }

  Philox random_;
  double roundings_;
  ExamFeeds feeds_;
  std::vector<std::size_t> order_;
};

bool is_square_moment(std::string_view name) {
  return name.find("/moment/") != name.npos && OptimizerSpec::is_square(name.substr(name.rfind('.') + 1));
}

// The values to compare: for a mean of squares, its root.
Values by_name(const std::vector<HostTensor>& tensors) {
  Values answers;
  for (const HostTensor& tensor : tensors) {
    std::vector<double>& values = answers[tensor.name] = to_doubles(tensor);
    if (!is_square_moment(tensor.name)) continue;
    for (double& value : values) value = std::sqrt(value);
  }
  return answers;
}

// The shift of a perturbed parameter's initial value is not an error of the steps: subtract it.
void remove_shift(Values& answers, const ExamFeeds& perturbed, const ExamFeeds& feeds) {
  for (std::size_t i = 0; i < feeds.state.size(); ++i) {
    for (const char* run : {"first/parameter/", "last/parameter/"}) {
      const auto found = answers.find(run + feeds.state[i].name);
      if (found == answers.end()) continue;
      const std::vector<double> moved = to_doubles(perturbed.state[i]);
      const std::vector<double> given = to_doubles(feeds.state[i]);
      for (std::size_t e = 0; e < given.size(); ++e) found->second[e] -= moved[e] - given[e];
    }
  }
}

void widen(std::map<std::string, ErrorNorms>& seen, const Values& got, const Values& exact) {
  for (const auto& [name, values] : exact) {
    const std::vector<double>& other = got.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(other.at(i) - values[i])) continue;
      throw CellError(
          fmt::format("[oracle] {} is not finite at element {} ({} in fp64, {} emulated): the program's "
                      "answer cannot be compared",
                      name, i, values[i], other[i]));
    }
    const ErrorNorms error = error_norms(other, values);
    ErrorNorms& bound = seen[name];
    bound.max = std::max(bound.max, error.max);
    bound.l2 = std::max(bound.l2, error.l2);
  }
}

// The errors that elements within rounding of a tie cause if they fall on the other side. The answers are of two runs
// that were moved in opposite directions. Their smooth errors cancel in the sum. A tie does not: only one of the two
// runs crosses it.
void widen_flips(std::map<std::string, ErrorNorms>& flips, const Values& one, const Values& opposite,
                 const Values& exact) {
  Values sum;
  for (const auto& [name, values] : exact) {
    std::vector<double>& added = sum[name] = one.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) added[i] += opposite.at(name).at(i) - values[i];
  }
  widen(flips, sum, exact);
}

Values after_the_first_step(const Values& answers) {
  Values later;
  for (const auto& [name, values] : answers)
    if (name.starts_with("last/")) later.emplace(name, values);
  return later;
}

void add_norms(std::vector<HostTensor>& results, const std::string& name, const ErrorNorms& norms) {
  results.push_back(HostTensor::zeros(name, {DType::f64, {2}}));
  results.back().as<double>()[0] = norms.max;
  results.back().as<double>()[1] = norms.l2;
}

ExamFeeds in_f64(ExamFeeds feeds) {
  for (std::vector<HostTensor>* tensors : {&feeds.state, &feeds.extreme})
    for (HostTensor& tensor : *tensors) tensor = as_f64(tensor);
  return feeds;
}

// How the oracle answers the exam of a task: that of task decode with an executable of task infer.
std::unique_ptr<Answers> oracle_answers_of(const Program& program, Task task) {
  return task == Task::decode ? answers_without_caches(program) : answers_of(program, task);
}

// The exam; for a network that trains also the gradients of the first step, with the outputs for the kinks.
std::vector<HostTensor> answered(Executable& executable, const Program& watched, Task task,
                                 const ExamFeeds& feeds) {
  std::vector<HostTensor> answers = oracle_answers_of(watched, task)->exam(executable, feeds);
  if (watched.is_op() || task != Task::train) return answers;
  executable.set_state(feeds.state);
  for (HostTensor& tensor : executable.gradients(feeds.batch(0).host()))
    if (tensor.name != "logits" && tensor.name != "loss") answers.push_back(std::move(tensor));
  return answers;
}

// Whether few elements are within rounding of a tie. With a narrower storage type too many are for a bias to clear
// them, and the perturbed runs cross them often.
bool has_rare_ties(const Program& program, Task task, const Precision& emulated) {
  return task == Task::train && !program.is_op() && emulated.storage == emulated.master && !emulated.tf32;
}

}  // namespace

std::vector<HostTensor> oracle_answers(Backend& backend, const Program& program, CompileOptions options,
                                       const OracleOptions& oracle, const ExamFeeds& given) {
  options.gradients = true;
  options.precision = precision_of(PrecisionKind::fp64);
  ExamFeeds feeds = given;
  std::vector<HostTensor> moved_biases;
  const bool rare_ties = has_rare_ties(program, options.task, oracle.emulated);
  if (rare_ties) moved_biases = sharpen(feeds, backend, program, options, oracle.emulated);
  Kinks kinks(program);
  const Program& watched = kinks.watched();
  const Task task = options.task;
  if (task == Task::decode) options.task = Task::infer;
  std::vector<HostTensor> tensors =
      answered(*backend.compile(watched, options), watched, task, in_f64(feeds));
  kinks.take(tensors);
  const Values exact = by_name(tensors);

  options.precision = oracle.emulated;
  const std::unique_ptr<Executable> emulation = backend.compile(watched, options);
  const std::unique_ptr<Answers> asked = oracle_answers_of(watched, task);
  std::map<std::string, ErrorNorms> seen;
  std::vector<HostTensor> emulated = answered(*emulation, watched, task, feeds);
  kinks.take(emulated);
  widen(seen, by_name(emulated), exact);
  const auto perturbed = [&](const Perturbation& perturbation, Kinks& observed) {
    std::vector<HostTensor> moved = answered(*emulation, watched, task, perturbation.feeds());
    observed.take(moved, [&](const std::vector<double>& rows) { return perturbation.ordered(rows); });
    Values answers = by_name(moved);
    for (auto& [name, values] : answers) {
      if (name.ends_with("logits"))
        values = perturbation.ordered(values, name == "logits" ? feeds.batches.count() : 1);
    }
    remove_shift(answers, perturbation.feeds(), feeds);
    return answers;
  };
  for (int run = 0; run < oracle.perturbations; ++run)
    widen(seen, perturbed({feeds, program, *asked, oracle.emulated, oracle.seed, run}, kinks), exact);

  std::map<std::string, ErrorNorms> flips;
  const std::int64_t elements = kinks.elements() * feeds.schedule.type.shape.front();
  if (rare_ties && elements > 0) {
    Kinks uncounted(program);
    const auto tipped = [&](int pair, double roundings) {
      return perturbed(
          {feeds, program, *asked, oracle.emulated, oracle.seed, oracle.perturbations + pair, roundings},
          uncounted);
    };
    const Values later = after_the_first_step(exact);
    if (elements <= many_elements || kinks.any_tipped())
      widen_flips(flips, tipped(0, tipping_roundings), tipped(0, -tipping_roundings), exact);
    for (int pair = 1; pair <= far_pairs; ++pair)
      widen_flips(flips, tipped(pair, far_tipping_roundings), tipped(pair, -far_tipping_roundings), later);
  }

  std::vector<HostTensor> results;
  for (HostTensor& tensor : moved_biases) {
    tensor.name = "state/" + tensor.name;
    results.push_back(std::move(tensor));
  }
  for (const HostTensor& tensor : tensors) {
    results.push_back(as_f64(tensor));
    add_norms(results, "bound/" + tensor.name, seen.at(tensor.name));
  }
  for (const auto& [name, norms] : flips) add_norms(results, "flips/" + name, norms);
  std::ranges::move(kinks.counts(), std::back_inserter(results));
  return results;
}

}  // namespace assay
