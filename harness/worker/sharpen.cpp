#include "harness/worker/sharpen.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "harness/graph/op.hpp"

namespace assay {
namespace {

// A backend's error at a ReLU may be this many times the largest error of the emulation.
constexpr double margin_factor = 8;
constexpr int max_candidates = 64;  // maximum of shifts to try in each direction

using Values = std::map<std::string, std::vector<double>>;

// A ReLU, and the bias that is added to its input.
struct Watched {
  ValueId input = none;
  ValueId bias = none;  // none: without a bias
  std::string output{};
};

// The bias whose change by d changes x by d.
ValueId bias_of(const Graph& graph, ValueId x) {
  const NodeId producer = graph.value(x).producer;
  if (producer == none) return none;
  const Node& node = graph.node(producer);
  const std::string_view op = node.op->name();
  if (op == "batch_norm" || ((op == "convolution" || op == "linear") && node.inputs.size() > 2))
    return node.inputs[2];
  if (op == "max_pool") return bias_of(graph, node.inputs[0]);
  if (op == "concat") {  // batch norm by slices has one bias for all of them
    const ValueId first = bias_of(graph, node.inputs[0]);
    const auto same = [&](ValueId part) { return bias_of(graph, part) == first; };
    return std::ranges::all_of(node.inputs, same) ? first : none;
  }
  if (op != "add") return none;
  for (const ValueId term : node.inputs)
    if (const ValueId found = bias_of(graph, term); found != none) return found;
  return none;
}

// In the order of the graph: a bias does not affect an earlier ReLU.
std::vector<Watched> relus_of(const Graph& graph) {
  std::vector<Watched> found;
  for (const Node& node : graph.nodes())
    if (node.op->kink(node.attributes) == Kink::at_zero)
      found.push_back({node.inputs[0], bias_of(graph, node.inputs[0]), "kink/" + node.name});
  return found;
}

// The forward pass of a training, in one precision.
class ForwardPass {
 public:
  ForwardPass(Backend& backend, const Program& program, const std::vector<Watched>& relus,
              CompileOptions options, const Precision& precision)
      : forward_(program.graph(Task::train)) {
    for (const Watched& relu : relus) forward_.add_output(relu.output, relu.input);
    options.task = Task::infer;
    options.precision = precision;
    executable_ = backend.compile({program.training, forward_, program.optimizer}, options);
  }

  // The input of each ReLU, by the name of its output.
  Values run(const ExamFeeds& feeds) {
    executable_->supply_masks(feeds.batch_masks());
    std::vector<HostTensor> state = feeds.state;
    std::erase_if(state, [this](const HostTensor& t) { return forward_.find(t.name) == none; });  // moments
    executable_->set_state(state);
    const FedBatch batch = feeds.batch(0);
    executable_->stage(0, host_of(batch));
    executable_->step(0, 0, 1);
    executable_->synchronize();
    Values values;
    for (const HostTensor& tensor : executable_->results())
      if (tensor.name.starts_with("kink/")) values[tensor.name] = to_doubles(tensor);
    return values;
  }

 private:
  Graph forward_;
  std::unique_ptr<Executable> executable_;
};

// Elements of one channel.
using Channel = std::vector<double>;

// x (N, C, ...) by channel.
std::vector<Channel> by_channel(const std::vector<double>& x, const Shape& shape) {
  std::vector<Channel> channels(static_cast<std::size_t>(shape.at(1)));
  const std::size_t plane = x.size() / static_cast<std::size_t>(shape[0] * shape[1]);
  for (std::size_t i = 0; i < x.size(); ++i) channels[i / plane % channels.size()].push_back(x[i]);
  return channels;
}

double nearest_to_zero(const Channel& values, double shift) {
  double nearest = std::numeric_limits<double>::infinity();
  for (const double value : values) nearest = std::min(nearest, std::abs(value + shift));
  return nearest;
}

// The smallest shift after which every element is at least one and a half margins away from zero; if there is
// none, the shift with the largest distance.
double clearing_shift(const Channel& values, double margin) {
  double best = 0, room = nearest_to_zero(values, 0);
  for (int step = 3; step <= max_candidates && room < 1.5 * margin; ++step) {
    for (const double shift : {step * margin, -step * margin}) {
      const double left = nearest_to_zero(values, shift);
      if (left > room) best = shift, room = left;
    }
  }
  return best;
}

// Clears the channels of one ReLU that have elements within the margin; returns false if it has none.
bool clear(HostTensor& bias, const std::vector<double>& x, const Shape& shape, double margin) {
  const std::vector<Channel> channels = by_channel(x, shape);
  bool moved = false;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    if (nearest_to_zero(channels[c], 0) >= margin) continue;
    const double shift = clearing_shift(channels[c], margin);
    if (shift == 0) continue;
    float& element = bias.as<float>()[c];
    element = static_cast<float>(element + shift);
    moved = true;
  }
  return moved;
}

// The minimum distance of an element from zero, by the ReLU that reads it.
std::map<std::string, double> margins_of(const Values& exact, const Values& rounded) {
  std::map<std::string, double> margins;
  for (const auto& [name, values] : exact) {
    double largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      largest = std::max(largest, std::abs(values[i] - rounded.at(name).at(i)));
    margins[name] = margin_factor * largest;
  }
  return margins;
}

}  // namespace

std::vector<HostTensor> sharpen(ExamFeeds& feeds, Backend& backend, const Program& program,
                                CompileOptions options, const Precision& emulated) {
  const Graph& graph = program.graph(Task::train);
  const std::vector<Watched> relus = relus_of(graph);
  if (relus.empty()) return {};
  // The emulation's values are good enough to move a bias by: they are off by an eighth of a margin.
  ForwardPass emulation(backend, program, relus, options, emulated);
  auto values = emulation.run(feeds);
  const auto margins = margins_of(
      ForwardPass(backend, program, relus, options, precision_of(PrecisionKind::fp64)).run(feeds), values);

  std::set<std::string> moved;
  for (const Watched& relu : relus) {
    const double margin = margins.at(relu.output);
    const Shape& shape = graph.value(relu.input).type.shape;
    if (relu.bias == none || shape.size() < 2) continue;
    const std::string& name = graph.value(relu.bias).name;
    HostTensor& bias = *std::ranges::find(feeds.state, name, &HostTensor::name);
    if (!clear(bias, values.at(relu.output), shape, margin)) continue;
    moved.insert(name);
    values = emulation.run(feeds);
  }
  std::vector<HostTensor> tensors;
  for (const HostTensor& tensor : feeds.state)
    if (moved.contains(tensor.name)) tensors.push_back(tensor);
  return tensors;
}

}  // namespace assay
