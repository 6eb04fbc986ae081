#include "harness/worker/kinks.hpp"

#include <algorithm>
#include <array>

#include "harness/graph/op.hpp"

namespace assay {
namespace {

constexpr const char* prefix = "kink/";

}  // namespace

Kinks::Kinks(const Program& program) : watched_(program) {
  if (program.is_op() || !program.training) return;
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
    const std::vector<double> values = ordered ? ordered(to_doubles(tensor)) : to_doubles(tensor);
    std::vector<std::int32_t> side = sides(kink.node, values);
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
  std::erase_if(answers, [this](const HostTensor& tensor) { return kinks_.contains(tensor.name); });
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

}  // namespace assay
