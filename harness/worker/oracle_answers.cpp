#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "harness/core/error.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/numerics.hpp"
#include "harness/graph/passes/slices.hpp"
#include "harness/graph/passes/walk.hpp"
#include "harness/worker/exam.hpp"
#include "harness/worker/kinks.hpp"
#include "harness/worker/perturbation.hpp"
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

// The most unit roundoffs by which a value is moved to the other side of a tie. sharpen() keeps those of ReLUs in the first step further away.
constexpr double tipping_roundings = 10;
// One pair crosses a tie as far away as a rounding in nine of ten cases. More of them look at the first step only.
constexpr int more_near_pairs = 3;
// For the steps after the first: about as far as the judge allows an error of a value to be, which is 8 sqrt(B/b)
// times what perturbed runs show.
constexpr double far_tipping_roundings = 80;
constexpr int far_pairs = 2;
bool is_square_moment(std::string_view name) {
  return name.find("/moment/") != name.npos && OptimizerSpec::is_square(name.substr(name.rfind('.') + 1));
}

// The values to compare: for a mean of squares, its root.
std::vector<double> compared(const HostTensor& tensor) {
  std::vector<double> values = to_doubles(tensor);
  if (is_square_moment(tensor.name))
    for (double& value : values) value = std::sqrt(value);
  return values;
}

// The shift of a perturbed parameter's initial value is not an error of the steps: subtract it.
void remove_shift(std::vector<double>& answer, std::string_view name, const ExamFeeds& perturbed,
                  const ExamFeeds& feeds) {
  for (const std::string_view run : {"first/parameter/", "last/parameter/"}) {
    if (!name.starts_with(run)) continue;
    const auto given = std::ranges::find(feeds.state, name.substr(run.size()), &HostTensor::name);
    if (given == feeds.state.end()) return;
    const std::span<const float> before = given->as<float>();
    const std::span<const float> moved =
        perturbed.state[static_cast<std::size_t>(given - feeds.state.begin())].as<float>();
    for (std::size_t e = 0; e < before.size(); ++e) answer[e] -= double{moved[e]} - double{before[e]};
  }
}

void widen(std::map<std::string, ErrorNorms>& seen, const std::string& name, const std::vector<double>& got,
           const std::vector<double>& exact) {
  if (got.size() != exact.size())
    throw CellError(
        fmt::format("[oracle] {} has {} elements in fp64, and {} emulated", name, exact.size(), got.size()));
  const ErrorNorms error = error_norms(got, exact);
  for (std::size_t i = 0; !std::isfinite(error.max) && i < exact.size(); ++i) {
    if (std::isfinite(got[i] - exact[i])) continue;
    throw CellError(
        fmt::format("[oracle] {} is not finite at element {} ({} in fp64, {} emulated): the program's answer "
                    "cannot be compared",
                    name, i, exact[i], got[i]));
  }
  ErrorNorms& bound = seen[name];
  bound.max = std::max(bound.max, error.max);
  bound.l2 = std::max(bound.l2, error.l2);
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

// Of logits (batches, B, T, classes), the positions that task decode answers: those from the prompt's last token on.
HostTensor generated_positions(const HostTensor& all, std::int64_t kept) {
  TensorType type = all.type;
  const std::int64_t samples = type.shape[0] * type.shape[1], length = type.shape[2];
  const auto row = static_cast<std::ptrdiff_t>(type.shape[3] * size_of(type.dtype));
  type.shape[2] = kept;
  HostTensor last{all.name, type, {}};
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const auto end = all.bytes.begin() + static_cast<std::ptrdiff_t>((sample + 1) * length) * row;
    last.bytes.insert(last.bytes.end(), end - static_cast<std::ptrdiff_t>(kept) * row, end);
  }
  return last;
}

// The exam of task decode is answered by an executable of task infer: without caches, from all tokens of a sample at
// once.
Task task_of_oracle(Task task) { return task == Task::decode ? Task::infer : task; }

// A part of the exam; for a network that trains also the gradients of the first step, with the outputs for the kinks.
std::vector<HostTensor> answered(Executable& executable, const Program& watched, Task task,
                                 const ExamFeeds& feeds, ExamPart part = ExamPart::compared) {
  std::vector<HostTensor> answers = exam_answers(executable, watched, task_of_oracle(task), feeds, part);
  if (task == Task::decode)
    for (HostTensor& logits : answers) logits = generated_positions(logits, 1 + watched.generated());
  if (!watched.trains(task)) return answers;
  executable.set_state(feeds.state);
  const FedBatch first = feeds.batch(0);
  for (HostTensor& tensor : executable.gradients(host_of(first)))
    if (tensor.name != "logits" && tensor.name != "loss") answers.push_back(std::move(tensor));
  return answers;
}

// Whether few elements are within rounding of a tie. With a narrower storage type too many are for a bias to clear
// them, and the perturbed runs cross them often.
bool has_rare_ties(const Program& program, Task task, const Precision& emulated) {
  return program.trains(task) && emulated.is_uniform();
}

// Several runs at a time, with a thread each, use a processor better than one after the other, whose operators often
// wait for memory.
std::size_t lanes_of(const Program& program, const ExamFeeds& feeds, int threads) {
  double elements = 0;
  for (const HostTensor& tensor : feeds.state) elements += static_cast<double>(tensor.type.elements());
  return static_cast<std::size_t>(oracle_lanes(program.is_op(), elements, threads));
}

// The runs of the oracle. Borrows everything.
class Runs {
 public:
  // `feeds` have the nudges of the kinks.
  Runs(Backend& backend, const Program& program, Kinks& kinks, const CompileOptions& options,
       const OracleOptions& oracle, const ExamFeeds& feeds, std::size_t lanes)
      : backend_(backend),
        program_(program),
        options_(options),
        oracle_(oracle),
        feeds_(feeds),
        task_(options.task),
        kinks_(kinks),
        emulations_(lanes) {
    options_.task = task_of_oracle(task_);
    options_.threads = std::max(1, options.threads / static_cast<int>(emulations_.size()));
  }

  // Does these jobs, several at a time, each with an executable of the emulated precision; before them the exact
  // run, if it was not made yet. Rethrows the first exception.
  using Job = std::function<void(Executable& emulation)>;
  void make(const std::vector<Job>& jobs) {
    const std::size_t own = tensors_.empty() ? 1 : 0;
    const std::size_t count = jobs.size() + own;
    std::atomic<std::size_t> next = 0;
    std::vector<std::exception_ptr> failures(emulations_.size());
    const auto work = [&](std::size_t lane) {
      try {
        for (std::size_t number = next++; number < count; number = next++) {
          if (number < own)
            make_exact();
          else
            jobs[number - own](emulation(lane));
        }
      } catch (...) {
        failures[lane] = std::current_exception();
        next = count;
      }
    };
    {
      std::vector<std::jthread> others;
      for (std::size_t lane = 1; lane < emulations_.size(); ++lane) others.emplace_back(work, lane);
      work(0);
    }
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }

  // Jobs. The errors of a run: unchanged, or perturbed, by its number.
  void add_unchanged(Executable& emulation) {
    std::vector<HostTensor> tensors = answered(emulation, kinks_.watched(), task_, feeds_);
    take_kinks(tensors, {});
    add_errors(tensors, compared);
  }
  void add_perturbed(Executable& emulation, int run) {
    const Moved moved = answers_of(emulation, run, perturbed_roundings, ExamPart::compared, true);
    add_errors(moved.answers, [&](const HostTensor& answer) { return values_of(moved, answer); });
  }
  // What two runs of one number that move every value in opposite directions show of ties, in the answers whose
  // names begin with `begin`: the errors that elements within rounding of a tie cause if they fall on the other
  // side. Smooth errors cancel in the sum of the two runs. A tie does not: only one of them crosses it.
  void add_flips(Executable& emulation, int pair, double roundings, ExamPart part = ExamPart::compared,
                 std::string_view begin = "") {
    const int run = oracle_.perturbations + pair;
    const Moved one = answers_of(emulation, run, roundings, part, false);
    const Moved opposite = answers_of(emulation, run, -roundings, part, false);
    wait_for_exact();
    for (std::size_t at = 0; at < one.answers.size(); ++at) {
      const std::string& name = one.answers[at].name;
      if (!name.starts_with(begin)) continue;
      std::vector<double> sum = values_of(one, one.answers[at]);
      const std::vector<double> other = values_of(opposite, opposite.answers.at(at));
      const std::vector<double>& exact = exact_.at(name);
      for (std::size_t i = 0; i < exact.size(); ++i) sum.at(i) += other.at(i) - exact[i];
      const std::lock_guard lock(mutex_);
      widen(flips_, name, sum, exact);
    }
  }

  const std::vector<HostTensor>& exact() const { return tensors_; }
  const std::map<std::string, ErrorNorms>& errors() const { return errors_; }
  const std::map<std::string, ErrorNorms>& flips() const { return flips_; }

 private:
  std::unique_ptr<Executable> compile(const Precision& precision) {
    CompileOptions options = options_;
    options.precision = precision;
    const std::lock_guard lock(mutex_);
    return backend_.compile(kinks_.watched(), options);
  }

  Executable& emulation(std::size_t lane) {
    if (!emulations_[lane]) emulations_[lane] = compile(oracle_.emulated);
    return *emulations_[lane];
  }

  void make_exact() {
    try {
      tensors_ =
          answered(*compile(precision_of(PrecisionKind::fp64)), kinks_.watched(), task_, in_f64(feeds_));
      kinks_.take(tensors_);
      for (const HostTensor& tensor : tensors_) exact_[tensor.name] = compared(tensor);
      made_exact_.set_value();
    } catch (...) {
      made_exact_.set_exception(std::current_exception());
      throw;
    }
  }

  void wait_for_exact() const { std::shared_future<void>(exact_is_made_).get(); }  // a copy for each thread

  // The exact run must be the first to give its kinks.
  void take_kinks(std::vector<HostTensor>& tensors, const Kinks::Order& ordered) {
    wait_for_exact();
    const std::lock_guard lock(mutex_);
    kinks_.take(tensors, ordered);
  }

  template <typename ValuesOf>
  void add_errors(const std::vector<HostTensor>& answers, const ValuesOf& values_of) {
    for (const HostTensor& answer : answers) {
      const std::vector<double> values = values_of(answer);
      const std::lock_guard lock(mutex_);
      widen(errors_, answer.name, values, exact_.at(answer.name));
    }
  }

  std::vector<HostTensor> reach() {
    const std::lock_guard lock(mutex_);
    return kinks_.reach();
  }

  // A run with everything moved.
  struct Moved {
    Perturbation perturbation;
    std::vector<HostTensor> answers{};
  };

  // counts: whether an element on another side of its kink is one that a backend's rounding may move there.
  Moved answers_of(Executable& emulation, int run, double roundings, ExamPart part, bool counts) {
    Moved moved{Perturbation(feeds_, program_, task_of_oracle(task_), oracle_, run, roundings)};
    if (!counts) moved.perturbation.nudge(reach());
    moved.answers = answered(emulation, kinks_.watched(), task_, moved.perturbation.feeds(), part);
    if (counts)
      take_kinks(moved.answers,
                 [&](const std::vector<double>& rows) { return moved.perturbation.ordered(rows); });
    else
      kinks_.leave_out(moved.answers);
    return moved;
  }

  // What is compared of an answer: in the order of the unmoved rows, and without the shift of what was given.
  std::vector<double> values_of(const Moved& moved, const HostTensor& answer) const {
    std::vector<double> values = compared(answer);
    const bool of_all_batches = !program_.is_op() && task_ != Task::train;
    if (of_all_batches || answer.name.ends_with("/logits"))
      values = moved.perturbation.ordered(values, of_all_batches ? feeds_.batches.count() : 1);
    remove_shift(values, answer.name, moved.perturbation.feeds(), feeds_);
    return values;
  }

  Backend& backend_;
  const Program& program_;
  CompileOptions options_;
  const OracleOptions& oracle_;
  const ExamFeeds& feeds_;
  Task task_;
  Kinks& kinks_;
  std::vector<std::unique_ptr<Executable>> emulations_;  // by lane
  std::vector<HostTensor> tensors_;                      // the exact answers
  Values exact_;                                         // the same, to compare
  std::promise<void> made_exact_;
  std::shared_future<void> exact_is_made_ = made_exact_.get_future().share();
  std::map<std::string, ErrorNorms> errors_, flips_;
  std::mutex mutex_;  // of what the runs add to, and of the backend
};

// The pairs of runs that show ties, the longest first.
std::vector<Runs::Job> pairs_of(Runs& runs, const Kinks& kinks, const ExamFeeds& feeds) {
  std::vector<Runs::Job> jobs;
  for (int pair = 1; pair <= far_pairs; ++pair)
    jobs.push_back([&runs, pair](Executable& emulation) {
      runs.add_flips(emulation, pair, far_tipping_roundings, ExamPart::compared, "last/");
    });
  const NearTies near = near_ties(kinks.elements() * feeds.schedule.type.shape.front(), kinks.any_tipped(),
                                  !kinks.nudges().empty());
  if (near.in_all_steps)
    jobs.push_back([&runs](Executable& emulation) { runs.add_flips(emulation, 0, tipping_roundings); });
  for (int more = 1; near.in_the_first && more <= more_near_pairs; ++more)
    jobs.push_back([&runs, more](Executable& emulation) {
      runs.add_flips(emulation, far_pairs + more, tipping_roundings, ExamPart::first_step);
    });
  return jobs;
}

}  // namespace

std::vector<HostTensor> oracle_answers(Backend& backend, const Program& asked, CompileOptions options,
                                       const OracleOptions& oracle, const ExamFeeds& given) {
  if (given.batches.distinct % oracle.slices != 0)
    throw CellError(fmt::format("[oracle] {} distinct samples are not {} equal slices",
                                given.batches.distinct, oracle.slices));
  const Program program = with_slices(asked, oracle.slices);
  options.gradients = true;
  ExamFeeds feeds = given;
  std::vector<HostTensor> moved_biases;
  const bool rare_ties = has_rare_ties(program, options.task, oracle.emulated);
  if (rare_ties) {
    options.precision = precision_of(PrecisionKind::fp64);
    moved_biases = sharpen(feeds, backend, program, options, oracle.emulated);
  }
  const std::size_t lanes = lanes_of(program, feeds, options.threads);
  Kinks kinks(program, rare_ties);
  std::ranges::move(kinks.nudges(), std::back_inserter(feeds.state));
  Runs runs(backend, program, kinks, options, oracle, feeds, lanes);
  std::vector<Runs::Job> jobs{[&runs](Executable& emulation) { runs.add_unchanged(emulation); }};
  for (int run = 0; run < oracle.perturbations; ++run)
    jobs.push_back([&runs, run](Executable& emulation) { runs.add_perturbed(emulation, run); });
  runs.make(jobs);
  // The pairs come last: how far they nudge is what the errors of these runs show.
  if (rare_ties && kinks.any()) runs.make(pairs_of(runs, kinks, feeds));

  std::vector<HostTensor> results;
  for (HostTensor& tensor : moved_biases) {
    tensor.name = "state/" + tensor.name;
    results.push_back(std::move(tensor));
  }
  for (const HostTensor& tensor : runs.exact()) {
    results.push_back(as_f64(tensor));
    add_norms(results, "bound/" + tensor.name, runs.errors().at(tensor.name));
  }
  for (const auto& [name, norms] : runs.flips()) add_norms(results, "flips/" + name, norms);
  std::ranges::move(kinks.counts(), std::back_inserter(results));
  return results;
}

}  // namespace assay
