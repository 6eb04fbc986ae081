#include "harness/worker/kinks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

constexpr const char* prefix = "kink/";
constexpr const char* nudge_prefix = "nudge/";

// The graph with a nudge before each node that chooses.
Graph with_nudges(const Graph& from) {
  GraphCopy copy(from);
  walk(
      from, [&](ValueId id) { copy.add_value(id); },
      [&](NodeId id) {
        const Node& node = from.node(id);
        if (node.op->kink(node.attributes) != Kink::choice) return copy.add_node(node);
        std::vector<ValueId> inputs;
        for (const ValueId input : node.inputs) inputs.push_back(copy.at(input));
        Graph& graph = copy.graph();
        const ValueId nudge =
            graph.add_value(nudge_prefix + node.name, {DType::f32, from.value(node.inputs[0]).type.shape},
                            Role::state, "zeros");
        inputs[0] = GraphBuilder(graph, true).add(inputs[0], nudge, "nudged/" + node.name);
        copy.add_node(node, inputs);
      });
  copy.add_outputs();
  copy.add_updates();
  return copy.take();
}

// The channels of a shape: dimension 1.
struct Channels {
  std::size_t count = 1, pixels = 1;

  explicit Channels(const Shape& shape) {
    if (shape.size() > 1) count = index(shape[1]);
    for (std::size_t d = 2; d < shape.size(); ++d) pixels *= index(shape[d]);
  }
  std::size_t of(std::size_t element) const { return element / pixels % count; }
};

}  // namespace

Kinks::Kinks(const Program& program, bool nudged) : watched_(program), nudged_(nudged) {
  if (program.is_op() || !program.training) return;
  if (nudged) watched_.training = with_nudges(*program.training);
  Graph& graph = *watched_.training;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    const Kink kink = node.op->kink(node.attributes);
    if (kink == Kink::nowhere) continue;
    const std::string name = prefix + node.name;
    kinks_[name].node = id;
    graph.add_output(name, kink == Kink::at_zero ? node.outputs[0] : node.inputs[0]);
  }
}

bool Kinks::is_nudged(const Watched& kink) const {
  const Node& node = watched_.training->node(kink.node);
  return nudged_ && node.op->kink(node.attributes) == Kink::choice;
}

const Shape& Kinks::read_by(const Watched& kink) const {
  return watched_.training->value(watched_.training->node(kink.node).inputs[0]).type.shape;
}

std::vector<HostTensor> Kinks::nudges() const {
  std::vector<HostTensor> tensors;
  for (const auto& [name, kink] : kinks_)
    if (is_nudged(kink))
      tensors.push_back(HostTensor::zeros(nudge_prefix + watched_.training->node(kink.node).name,
                                          {DType::f32, read_by(kink)}));
  return tensors;
}

std::vector<HostTensor> Kinks::reach() const {
  std::vector<HostTensor> tensors = nudges();
  auto tensor = tensors.begin();
  for (const auto& [name, kink] : kinks_) {
    if (!is_nudged(kink)) continue;
    const Channels channels(read_by(kink));
    const std::span<float> values = (tensor++)->as<float>();
    for (std::size_t i = 0; i < values.size() && !kink.reach.empty(); ++i)
      values[i] = static_cast<float>(kink.reach[channels.of(i)]);
  }
  return tensors;
}

// The first values are exact.
void Kinks::widen_reach(Watched& kink, std::vector<double> values) const {
  const Channels channels(read_by(kink));
  if (kink.exact.empty()) {
    kink.exact = std::move(values);
    kink.reach.resize(channels.count);
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& reach = kink.reach[channels.of(i)];
    reach = std::max(reach, std::abs(values[i] - kink.exact[i]));
  }
}

std::vector<std::int32_t> Kinks::sides(NodeId id, const std::vector<double>& values) const {
  const Graph& graph = watched_.graph(Task::train);
  const Node& node = graph.node(id);
  if (node.op->kink(node.attributes) == Kink::choice)
    return node.op->choices(node.attributes, graph.value(node.inputs[0]).type.shape, values);
  std::vector<std::int32_t> side(values.size());
  std::ranges::transform(values, side.begin(), [](double y) { return y > 0 ? 1 : 0; });
  return side;
}

void Kinks::take(std::vector<HostTensor>& answers, const Order& ordered) {
  for (const HostTensor& tensor : answers) {
    const auto found = kinks_.find(tensor.name);
    if (found == kinks_.end()) continue;
    Watched& kink = found->second;
    std::vector<double> values = ordered ? ordered(to_doubles(tensor)) : to_doubles(tensor);
    std::vector<std::int32_t> side = sides(kink.node, values);
    if (is_nudged(kink)) widen_reach(kink, std::move(values));
    if (kink.side.empty()) {
      kink.tipped.resize(side.size());
      kink.side = std::move(side);
      continue;
    }
    for (std::size_t i = 0; i < side.size(); ++i)
      if (side[i] != kink.side[i]) kink.tipped[i] = true;
  }
  leave_out(answers);
}

void Kinks::leave_out(std::vector<HostTensor>& answers) const {
  std::erase_if(answers, [this](const HostTensor& tensor) {
    return kinks_.contains(tensor.name) || tensor.name.find(nudge_prefix) != tensor.name.npos;
  });
}

std::int64_t Kinks::elements() const {
  std::int64_t all = 0;
  for (const auto& [name, kink] : kinks_) all += std::ssize(kink.side);
  return all;
}

bool Kinks::any_tipped() const {
  return std::ranges::any_of(
      kinks_, [](const auto& kink) { return std::ranges::count(kink.second.tipped, true) > 0; });
}

std::vector<HostTensor> Kinks::counts() const {
  std::map<std::string, std::array<std::int64_t, 2>> by_op;
  for (const auto& [name, kink] : kinks_) {
    auto& [tipped, elements] = by_op[std::string(watched_.training->node(kink.node).op->name())];
    tipped += std::ranges::count(kink.tipped, true);
    elements += static_cast<std::int64_t>(kink.tipped.size());
  }
  std::vector<HostTensor> tensors;
  for (const auto& [op, count] : by_op) {
    HostTensor tensor = HostTensor::zeros("ties/" + op, {DType::f64, {2}});
    std::ranges::copy(count, tensor.as<double>().begin());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

NearTies near_ties(std::int64_t elements, bool tipped, bool chooses) {
  constexpr std::int64_t many_elements = 10'000'000;
  const bool affordable = elements <= many_elements || tipped;
  return {affordable, affordable || chooses};
}

}  // namespace assay
