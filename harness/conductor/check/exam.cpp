// write_exam: a state, batches and a schedule that make mistakes visible.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "harness/conductor/check/exam.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/check/tolerance.hpp"
#include "harness/conductor/data/initial_values.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

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

// absent: a class that no sample of the first batch has, if there is one.
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

// Whether rows first, first + every, ... below `end` have every sample equally often.
bool has_all_equally(const std::vector<std::int64_t>& rows, std::size_t first, std::size_t end,
                     std::size_t every, std::int64_t distinct) {
  std::vector<int> times(static_cast<std::size_t>(distinct), 0);
  for (std::size_t r = first; r < end; r += every) ++times[static_cast<std::size_t>(rows[r])];
  return std::ranges::adjacent_find(times, std::ranges::not_equal_to()) == times.end();
}

// Whether a half or a quarter of the rows, next to each other or spread over the batch, has every sample equally
// often. Such a part has the mean of the whole batch, so that a step which leaves out the rest looks right.
bool has_a_part_like_the_whole(const std::vector<std::int64_t>& rows, std::int64_t distinct) {
  for (const std::size_t parts : {2, 4}) {
    const std::size_t part = rows.size() / parts;
    for (std::size_t k = 0; k < parts && part > 0; ++k) {
      if (has_all_equally(rows, k * part, (k + 1) * part, 1, distinct)) return true;
      if (has_all_equally(rows, k, rows.size(), parts, distinct)) return true;
    }
  }
  return false;
}

// Row r of the batch is sample row_of[r]: every sample equally often, in shuffled order. No part of the rows is like
// the whole, if there is such an order.
std::vector<std::int64_t> shuffled_rows(std::int64_t batch, std::int64_t distinct, Philox random) {
  constexpr int max_tries = 1000;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(batch));
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = static_cast<std::int64_t>(r) % distinct;
  random.shuffle(std::span(rows));
  for (int tries = 1; tries < max_tries && distinct > 1 && has_a_part_like_the_whole(rows, distinct); ++tries)
    random.shuffle(std::span(rows));
  return rows;
}

// The rows of several ranks, one rank after the other: each rank has samples that no other one has, so that a rank which
// reads another one's rows is found.
std::vector<std::int64_t> shuffled_rows_of_ranks(std::int64_t batch, std::int64_t distinct, int ranks,
                                                 std::uint64_t seed) {
  std::vector<std::int64_t> rows;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string stream = rank == 0 ? "exam/rows" : fmt::format("exam/rows/{}", rank);
    for (const std::int64_t row : shuffled_rows(batch / ranks, distinct / ranks, Philox(seed, stream)))
      rows.push_back(rank * (distinct / ranks) + row);
  }
  return rows;
}

// Images with mean 0 and deviation 1, like normalised images; all different.
HostTensor images_of(Shape shape, std::int64_t samples, std::uint64_t seed) {
  shape.front() = samples;
  HostTensor inputs = HostTensor::zeros("inputs", {DType::f32, shape});
  Philox random(seed, "exam/inputs");
  for (float& value : inputs.as<float>())
    value = static_cast<float>(std::sqrt(12.0) * (random.uniform_double() - 0.5));
  return inputs;
}

// Whole numbers below the number of rows of the table that they look up, uniform, so that some tokens appear
// twice. The first and the last row are in every sample: a padding token, or an index that is off by one,
// would use them.
HostTensor tokens_of(Shape shape, std::int64_t vocabulary, std::int64_t samples, std::uint64_t seed) {
  shape.front() = samples;
  HostTensor inputs = HostTensor::zeros("inputs", {DType::i32, shape});
  Philox random(seed, "exam/inputs");
  const std::span<std::int32_t> tokens = inputs.as<std::int32_t>();
  for (std::int32_t& token : tokens)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
  const std::size_t length = tokens.size() / static_cast<std::size_t>(samples);
  for (std::size_t at = 0; at < tokens.size() && length > 1; at += length) {
    const auto first = static_cast<std::size_t>(random.below(length));
    tokens[at + first] = 0;
    tokens[at + (first + 1) % length] = static_cast<std::int32_t>(vocabulary - 1);
  }
  return inputs;
}

// The token that fills up short samples at their end; nullopt without one.
std::optional<std::int32_t> padding_of(const Graph& graph, ValueId inputs) {
  for (const Node& node : graph.nodes())
    if (node.op->name() == "padding_mask" && node.inputs[0] == inputs)
      return static_cast<std::int32_t>(node.attributes.get<std::int64_t>("padding"));
  return std::nullopt;
}

// Gives the samples different lengths, from one token to all: the first sample is full, the second has one
// token, and the others have any number. Only the places after the last token of a sample are padding.
void cut_texts(HostTensor& inputs, std::int32_t padding, std::int64_t vocabulary, std::uint64_t seed) {
  const std::span<std::int32_t> tokens = inputs.as<std::int32_t>();
  const auto samples = static_cast<std::size_t>(inputs.type.shape.front());
  const std::size_t length = tokens.size() / samples;
  Philox random(seed, "exam/lengths");
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const std::span<std::int32_t> row = tokens.subspan(sample * length, length);
    const std::size_t kept = sample == 0   ? length
                             : sample == 1 ? 1
                                           : 1 + static_cast<std::size_t>(random.below(length));
    for (std::int32_t& token : row.first(kept))
      while (token == padding)
        token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
    std::ranges::fill(row.subspan(kept), padding);
  }
}

// The number of rows of the table that the inputs look up.
std::int64_t vocabulary_of(const Graph& graph, ValueId inputs) {
  for (const Node& node : graph.nodes()) {
    if (node.op->name() == "embedding" && node.inputs[0] == inputs)
      return graph.value(node.inputs[1]).type.shape.front();
  }
  throw GraphError(fmt::format(
      "[check] graph '{}': the vocabulary is unknown, because no embedding reads the tokens", graph.name()));
}

HostTensor inputs_of(const Graph& graph, const ExamBatches& batches, std::uint64_t seed) {
  const std::int64_t samples = batches.count() * batches.distinct;
  const ValueId inputs = graph.with_role(Role::input).at(0);
  const TensorType& type = graph.value(inputs).type;
  if (type.dtype != DType::i32) return images_of(type.shape, samples, seed);
  const std::int64_t vocabulary = vocabulary_of(graph, inputs);
  HostTensor tokens = tokens_of(type.shape, vocabulary, samples, seed);
  if (const std::optional<std::int32_t> padding = padding_of(graph, inputs); padding && vocabulary > 1)
    cut_texts(tokens, *padding, vocabulary, seed);
  return tokens;
}

// A label for each position, drawn from all classes. The first sample has the first and the last class.
HostTensor labels_of_positions(Shape shape, std::int64_t classes, std::int64_t samples, std::uint64_t seed) {
  shape.front() = samples;
  HostTensor labels = HostTensor::zeros("labels", {DType::i32, shape});
  Philox random(seed, "exam/labels");
  const std::span<std::int32_t> all = labels.as<std::int32_t>();
  for (std::int32_t& label : all)
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes)));
  const std::size_t positions = all.size() / static_cast<std::size_t>(samples);
  const auto first = static_cast<std::size_t>(random.below(positions));
  all[first] = 0;
  if (positions > 1) all[(first + 1) % positions] = static_cast<std::int32_t>(classes - 1);
  return labels;
}

// Deals the classes of `deck` in turn, and those of a shuffled deck of all classes when it is empty.
std::vector<std::int32_t> deal(std::deque<std::int32_t>& deck, std::int64_t count, std::int64_t classes,
                               Philox& random) {
  std::vector<std::int32_t> labels;
  while (std::ssize(labels) < count) {
    if (deck.empty()) {
      deck.resize(static_cast<std::size_t>(classes));
      std::iota(deck.begin(), deck.end(), 0);
      std::vector<std::int32_t> shuffled(deck.begin(), deck.end());
      random.shuffle(std::span(shuffled));
      std::ranges::copy(shuffled, deck.begin());
    }
    labels.push_back(deck.front());
    deck.pop_front();
  }
  return labels;
}

// Drawn labels, with as many classes as there can be: the first batch has the first and the last class, and leaves one
// class out for show_epsilon(). (With one sample in a batch, the second batch has the other of the two.) No batch has
// only one label, so that labels of other samples show.
HostTensor labels_of(std::int64_t classes, const ExamBatches& batches, std::uint64_t seed) {
  const std::int64_t distinct = batches.distinct;
  HostTensor labels = HostTensor::zeros("labels", {DType::i32, {batches.count() * distinct}});
  Philox random(seed, "exam/labels");
  std::vector<std::int32_t> ends{0, static_cast<std::int32_t>(classes - 1)}, others;
  if (classes == 1) ends.pop_back();
  for (std::int32_t label = 1; label < classes - 1; ++label) others.push_back(label);
  random.shuffle(std::span(ends));
  random.shuffle(std::span(others));
  std::deque<std::int32_t> deck(ends.begin(), ends.end());
  std::ranges::copy(others, std::back_inserter(deck));
  const bool leaves_one_out = classes > 2 && distinct >= classes;
  std::deque<std::int32_t> first = deck;
  if (leaves_one_out) first.pop_back();
  for (std::int64_t batch = 0; batch < batches.count(); ++batch) {
    std::vector<std::int32_t> dealt;
    if (batch == 0 && leaves_one_out) {
      for (std::int64_t i = 0; i < distinct; ++i)
        dealt.push_back(first[static_cast<std::size_t>(i) % first.size()]);
      deck.clear();
      deck.push_back(others.back());
    } else {
      dealt = deal(deck, distinct, classes, random);
    }
    const auto other = std::ranges::adjacent_find(dealt, std::ranges::not_equal_to());
    if (other == dealt.end() && distinct > 1 && classes > 1)
      dealt.back() = static_cast<std::int32_t>((dealt.back() + 1) % classes);
    random.shuffle(std::span(dealt));
    std::ranges::copy(dealt, labels.as<std::int32_t>().begin() + batch * distinct);
  }
  return labels;
}

// The last class that no sample of the first batch has.
std::optional<std::int64_t> absent_class(const HostTensor& labels, std::int64_t batches,
                                         std::int64_t classes) {
  const std::span<const std::int32_t> all = labels.as<std::int32_t>();
  const auto first = all.first(all.size() / static_cast<std::size_t>(batches));
  for (std::int64_t label = classes - 1; label >= 0; --label)
    if (std::ranges::find(first, label) == first.end()) return label;
  return std::nullopt;
}

// Masks are data in an exam: drawn once for each distinct sample of a batch, the same in every batch.
std::vector<HostTensor> masks_of(const Graph& graph, const ExamBatches& batches, std::uint64_t seed) {
  std::vector<HostTensor> masks;
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.inputs) {
      if (id == none || graph.value(id).role != Role::mask) continue;
      const Value& value = graph.value(id);
      const double rate = node.attributes.number("rate");
      Shape shape = value.type.shape;
      shape.front() = batches.distinct;
      HostTensor mask = HostTensor::zeros(value.name, {value.type.dtype, shape});
      Philox random(seed, "exam/" + value.name);
      for (std::uint8_t& kept : mask.as<std::uint8_t>()) kept = random.uniform() >= static_cast<float>(rate);
      masks.push_back(std::move(mask));
    }
  }
  return masks;
}

// From `low` to `high`, every order of magnitude equally often.
double log_uniform(Philox& random, double low, double high) {
  return low * std::pow(high / low, random.uniform_double());
}

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

// One logit whose distance to the others makes its exponential overflow fp32.
constexpr float extreme_logit = 120;

// The bias of the last layer with the extreme logit in a class that the first sample does not have; empty without such
// a bias. If all samples had that class, the loss would be zero, and an answer nothing but rounding.
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

// Whether the run is continued: not if it draws random numbers or if three copies of the state are too large.
bool is_continued(const Program& program, const ExamPlan& plan, const std::vector<HostTensor>& state) {
  constexpr std::size_t max_bytes = std::size_t{256} << 20;
  std::size_t bytes = 0;
  for (const HostTensor& tensor : state) bytes += tensor.bytes.size();
  return program.trains(plan.task) && bytes <= max_bytes && !program.draws_masks(plan.task);
}

}  // namespace

std::int64_t distinct_samples(std::int64_t batch, std::int64_t asked) {
  if (batch < 1 || asked < 1) {
    throw std::invalid_argument(
        fmt::format("[check] got batch {} with {} distinct samples: both must be positive", batch, asked));
  }
  std::int64_t below = std::min(batch, asked);
  while (batch % below != 0) --below;
  if (2 * below >= std::min(asked, batch)) return below;
  std::int64_t above = asked;
  while (batch % above != 0) ++above;
  return above;
}

std::int64_t distinct_of(const Program& program, const ExamPlan& plan) {
  return plan.ranks * distinct_samples(batch_of(program) / plan.ranks, plan.distinct);
}

std::vector<std::int64_t> exam_slots(std::int64_t resident, std::uint64_t turn, std::uint64_t seed) {
  constexpr std::int64_t most = 8;
  if (resident <= 0) return {0, 0, 0};
  // The same in all exams of a cell.
  std::vector<std::int64_t> below_half(static_cast<std::size_t>(resident / 2)), all;
  std::iota(below_half.begin(), below_half.end(), std::int64_t{0});
  Philox(static_cast<std::uint64_t>(resident), "exam/turns").shuffle(std::span(below_half));
  for (const std::int64_t slot : below_half) {
    all.push_back(slot);
    all.push_back(slot + resident / 2);
  }
  if (resident % 2 != 0) all.push_back(resident - 1);
  const std::int64_t begin = static_cast<std::int64_t>(turn % static_cast<std::uint64_t>(resident)) * most;
  std::vector<std::int64_t> slots;
  for (std::int64_t i = 0; i < std::min(most, resident); ++i)
    slots.push_back(all[static_cast<std::size_t>((begin + i) % resident)]);
  Philox(seed, "exam/slots").shuffle(std::span(slots));
  return slots;
}

void write_exam(const fs::path& folder, const Program& program, const ExamPlan& plan) {
  constexpr std::int64_t min_steps = 3;
  const Graph& graph = program.graph(plan.task);
  const bool trains = program.trains(plan.task);
  const std::uint64_t seed = plan.seed;
  ExamBatches batches{.batch = batch_of(program), .slots = exam_slots(plan.resident, plan.turn, seed)};
  if (program.is_op()) batches.slots.resize(std::min<std::size_t>(2, batches.slots.size()));
  if (plan.of_run) batches.slots.resize(std::min<std::size_t>(program.is_op() ? 1 : 2, batches.slots.size()));
  batches.distinct = distinct_of(program, plan);
  batches.row_of = shuffled_rows_of_ranks(batches.batch, batches.distinct, plan.ranks, seed);
  const std::int64_t samples = batches.count() * batches.distinct;

  fs::create_directories(folder);
  if (packs_inputs(program)) {
    const std::int64_t batch = batch_of(program);
    HostTensor drawn = HostTensor::zeros("inputs", {DType::f32, {samples, input_elements(graph) / batch}});
    std::ranges::copy(draw_operands(graph, samples, seed, "exam", batch), drawn.as<float>().begin());
    write_npy(folder / "inputs.npy", drawn);
  } else {
    write_npy(folder / "inputs.npy", inputs_of(graph, batches, seed));
  }
  std::vector<HostTensor> state;
  if (trains) {
    const Shape& labels = graph.value(graph.find("labels")).type.shape;
    const std::int64_t classes = graph.value(graph.output("logits")).type.shape.back();
    const HostTensor drawn = labels.size() > 1 ? labels_of_positions(labels, classes, samples, seed)
                                               : labels_of(classes, batches, seed);
    write_npy(folder / "labels.npy", drawn);
    state = state_of(program, plan, absent_class(drawn, batches.count(), classes));
    const std::vector<HostTensor> extreme = extreme_of(program, state, drawn.as<std::int32_t>()[0]);
    if (!extreme.empty()) write_safetensors(folder / "extreme.safetensors", extreme);
  } else {
    state = state_of(program, plan, std::nullopt);
    write_npy(folder / "labels.npy", HostTensor::zeros("labels", {DType::i32, {samples}}));
  }
  write_safetensors(folder / "state.safetensors", state);
  write_npy(folder / "schedule.npy",
            schedule_of(program, std::max(min_steps, batches.count()), plan.turn, seed));
  const std::vector<HostTensor> masks = masks_of(graph, batches, seed);
  if (!masks.empty()) write_safetensors(folder / "masks.safetensors", masks);
  write_atomically(folder / "batches.json", encode(batches).dump() + "\n", false);
  if (is_continued(program, plan, state))
    write_atomically(folder / "continuation.json", encode(ExamContinuation{}).dump() + "\n", false);
}

void take_moved_biases(const fs::path& folder, const fs::path& answers) {
  constexpr std::string_view prefix = "state/";
  const fs::path state = folder / "state.safetensors";
  std::vector<HostTensor> tensors = read_safetensors(state);
  bool any = false;
  for (const HostTensor& moved : read_safetensors(answers)) {
    if (!moved.name.starts_with(prefix)) continue;
    const auto found = std::ranges::find(tensors, moved.name.substr(prefix.size()), &HostTensor::name);
    if (found == tensors.end() || found->type != moved.type)
      throw CellError(fmt::format("[exam] the oracle moved {}, which is not in the exam", moved.name));
    found->bytes = moved.bytes;
    any = true;
  }
  if (any) write_safetensors(state, tensors);
}

}  // namespace assay
