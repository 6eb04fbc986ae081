// The parameters, running statistics and moments of an exam.
#include <algorithm>
#include <cmath>

#include "harness/conductor/check/exam_contents.hpp"
#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

// Values in +-[low, high], or in [low, high] if `positive`, never one.
struct Range {
  double low = 0;
  double high = 0;
  bool positive = false;
};

// Scales that neither saturate nor vanish: weights keep the variance through a ReLU (He et al. 2015), and
// biases and running means are as large as the values they are added to. Values stay away from zero and one,
// which would hide a missing term or factor.
Range range_of(const Value& value) {
  if (value.initializer == "ones") return {0.5, 1.5, true};  // scales and running variances
  if (value.type.shape.size() < 2) return {0.05, 0.25, false};
  const double fan_in = static_cast<double>(value.type.elements() / value.type.shape.front());
  const double limit = std::sqrt(6 / std::max(1.0, fan_in));
  return {0.1 * limit, limit, false};
}

Range scaled(Range range, double factor) {
  range.low *= factor;
  range.high *= factor;
  return range;
}

// With weights as large as those before a ReLU, an LSTM is chaotic: after a few steps of training, rounding decides
// all values, and nothing can be compared. These are 0.6 / sqrt(units) at most; PyTorch begins with 1 / sqrt(units).
constexpr double lstm_scale = 0.25;

float draw(Philox& random, const Range& range) {
  for (;;) {
    const double magnitude = range.low + (range.high - range.low) * random.uniform_double();
    if (std::abs(magnitude - 1) < 0.02) continue;
    return static_cast<float>(range.positive || random.uniform_double() < 0.5 ? magnitude : -magnitude);
  }
}

// The parameters of the linear layer that computes the logits; none if another op computes them.
std::vector<ValueId> parameters_of_last(const Graph& graph) {
  const ValueId logits = graph.output("logits");
  for (const Node& node : graph.nodes()) {
    if (node.op->name() != "linear" || node.outputs[0] != logits) continue;
    std::vector<ValueId> parameters{node.inputs.begin() + 1, node.inputs.end()};
    std::erase(parameters, none);  // an absent bias
    return parameters;
  }
  return {};
}

// Moments as in the middle of a training, different for each element. From zero moments the first step of
// Adam is a full step in the direction of the gradient's sign, even if that gradient is only rounding. Means
// of squares spread over decades, but stay above the square of the rounding in the cell's precision. An
// epsilon is visible where they are small: in the last layer, whose gradients have the least rounding, and most of all
// in the class of show_epsilon(). A mean is at most the root of its mean of squares.
void add_moments(std::vector<HostTensor>& tensors, const Program& program, std::uint64_t seed,
                 PrecisionKind precision) {
  const bool narrow = is_narrow(precision_of(precision));
  const double largest = narrow ? 2e-2 : 1e-1;
  // In some frameworks RMSprop's epsilon is under the root (docs/reference/differences.md), so the roots stay
  // well above it.
  const bool rms = program.optimizer.value().kind == "rmsprop";
  const std::vector<ValueId> last = parameters_of_last(program.inference);
  for (const ValueId id : program.inference.with_role(Role::parameter)) {
    const Value& value = program.inference.value(id);
    const double smallest = narrow ? 2e-3 : rms ? 1e-3 : contains(last, id) ? 1e-6 : 1e-4;
    Philox sizes(seed, "exam/" + value.name + "/size");
    std::vector<double> roots(static_cast<std::size_t>(value.type.elements()));
    for (double& root : roots) root = smallest * std::pow(largest / smallest, sizes.uniform_double());
    for (const std::string& moment : program.moments()) {
      HostTensor tensor = HostTensor::zeros(value.name + "." + moment, {DType::f32, value.type.shape});
      Philox random(seed, "exam/" + tensor.name);
      const std::span<float> elements = tensor.as<float>();
      for (std::size_t i = 0; i < roots.size(); ++i) {
        const double mean = draw(random, {0.1, 0.9, false});
        const bool scaled = program.moments().size() > 1;  // Adam has m next to v
        elements[i] = static_cast<float>(
            OptimizerSpec::is_square(moment) ? roots[i] * roots[i] : (scaled ? roots[i] : 0.01) * mean);
      }
      tensors.push_back(std::move(tensor));
    }
  }
}

// Makes one class so unlikely that its gradients nearly vanish, and gives it means of squares whose roots are ten to
// a hundred times Adam's usual epsilon: then its update shows the epsilon. The logits need a bias.
void show_epsilon(std::vector<HostTensor>& state, const Program& program, std::int64_t unlikely,
                  std::uint64_t seed) {
  constexpr float logit = -16;  // a probability of about 1e-7
  constexpr double smallest = 1e-7, largest = 1e-6;
  const std::vector<ValueId> last = parameters_of_last(program.inference);
  if (last.size() < 2) return;
  for (const ValueId id : last) {
    const Value& value = program.inference.value(id);
    const auto per_class = static_cast<std::size_t>(value.type.elements() / value.type.shape.front());
    const std::size_t first = static_cast<std::size_t>(unlikely) * per_class;
    Philox sizes(seed, "exam/" + value.name + "/epsilon");
    std::vector<double> roots(per_class), means(per_class);
    for (double& root : roots) root = smallest * std::pow(largest / smallest, sizes.uniform_double());
    for (double& mean : means) mean = draw(sizes, {0.1, 0.9, false});
    for (HostTensor& tensor : state) {
      const std::span<float> elements = tensor.as<float>();
      if (tensor.name == value.name && value.type.shape.size() == 1) elements[first] = logit;
      if (!tensor.name.starts_with(value.name + ".")) continue;
      const bool square = OptimizerSpec::is_square(tensor.name.substr(value.name.size() + 1));
      for (std::size_t i = 0; i < per_class; ++i)
        elements[first + i] = static_cast<float>(roots[i] * (square ? roots[i] : means[i]));
    }
  }
}

// Opens the forget gates of half of an LSTM's units nearly fully, so that the first step of a sequence still
// affects the last one. Gates are in the order input, forget, cell, output.
void open_forget_gates(HostTensor& bias, std::uint64_t seed) {
  const std::span<float> all = bias.as<float>();
  const std::size_t units = all.size() / 4;
  Philox random(seed, "exam/" + bias.name + "/forget");
  for (std::size_t unit = 0; unit < units; unit += 2)
    all[units + unit] = static_cast<float>(3 + 3 * random.uniform_double());
}

// One logit whose distance to the others makes its exponential overflow fp32.
constexpr float extreme_logit = 120;

}  // namespace

std::vector<HostTensor> state_of(const Program& program, const ExamPlan& plan,
                                 std::optional<std::int64_t> absent) {
  const std::uint64_t seed = plan.seed;
  const Graph& graph = program.inference;
  std::vector<HostTensor> tensors;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id) {
    const Value& value = graph.value(id);
    if (value.role != Role::parameter && value.role != Role::state) continue;
    Philox random(seed, "exam/" + value.name);
    HostTensor tensor = HostTensor::zeros(value.name, {DType::f32, value.type.shape});
    Range range = range_of(value);
    if (is_operand(graph, id, "lstm", 1) || is_operand(graph, id, "lstm", 2))  // its weights
      range = scaled(range, lstm_scale);
    for (float& element : tensor.as<float>()) element = draw(random, range);
    if (is_operand(graph, id, "lstm", 3)) open_forget_gates(tensor, seed);
    tensors.push_back(std::move(tensor));
  }
  if (!program.trains(plan.task)) return tensors;
  add_moments(tensors, program, seed, plan.precision);
  const bool adam = contains(program.moments(), "m");
  if (adam && absent && !is_narrow(precision_of(plan.precision)))
    show_epsilon(tensors, program, *absent, seed);
  return tensors;
}

std::vector<HostTensor> extreme_of(const Program& program, const std::vector<HostTensor>& state,
                                   std::int32_t first_label) {
  const std::vector<ValueId> last = parameters_of_last(program.inference);
  if (last.size() < 2) return {};  // no bias
  const auto found = std::ranges::find(state, program.inference.value(last[1]).name,
                                       [](const HostTensor& t) { return t.name; });
  HostTensor extreme = *found;
  const std::span<float> classes = extreme.as<float>();
  classes[first_label == 0 && classes.size() > 1 ? 1 : 0] = extreme_logit;
  return {std::move(extreme)};
}

}  // namespace assay
