#include "harness/worker/kinks.hpp"

#include <algorithm>
#include <array>

#include "harness/graph/op.hpp"

namespace assay {
namespace {

constexpr const char* prefix = "kink/";

// For each window of a max pool over x (N, C, H, W): the index in its plane of the first maximum.
std::vector<std::int32_t> winners(const Node& pool, const Shape& x, const Shape& y,
                                  const std::vector<double>& values) {
  const auto kernel = pool.attributes.get<std::int64_t>("kernel");
  const auto stride = pool.attributes.get<std::int64_t>("stride");
  const auto padding = pool.attributes.get<std::int64_t>("padding");
  const std::int64_t height = x[2], width = x[3], rows = y[2], columns = y[3];
  std::vector<std::int32_t> first;
  first.reserve(static_cast<std::size_t>(x[0] * x[1] * rows * columns));
  for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
    const double* at = values.data() + plane * height * width;
    for (std::int64_t o = 0; o < rows * columns; ++o) {
      const std::int64_t top = o / columns * stride - padding, left = o % columns * stride - padding;
      std::int64_t best = std::max<std::int64_t>(top, 0) * width + std::max<std::int64_t>(left, 0);
      for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + kernel, height); ++h) {
        for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + kernel, width); ++w)
          if (at[h * width + w] > at[best]) best = h * width + w;
      }
      first.push_back(static_cast<std::int32_t>(best));
    }
  }
  return first;
}

}  // namespace

Kinks::Kinks(const Program& program) : watched_(program) {
  if (program.is_op()) return;
  Graph& graph = watched_.training;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    const bool relu = node.op->name() == "relu", pool = node.op->name() == "max_pool";
    if (!relu && !pool) continue;
    const std::string name = prefix + node.name;
    kinks_[name].node = id;
    graph.add_output(name, relu ? node.outputs[0] : node.inputs[0]);
  }
}

std::vector<std::int32_t> Kinks::sides(NodeId id, const std::vector<double>& values) const {
  const Graph& graph = watched_.training;
  const Node& node = graph.node(id);
  if (node.op->name() == "max_pool")
    return winners(node, graph.value(node.inputs[0]).type.shape, graph.value(node.outputs[0]).type.shape,
                   values);
  std::vector<std::int32_t> side(values.size());
  std::ranges::transform(values, side.begin(), [](double y) { return y > 0 ? 1 : 0; });
  return side;
}

void Kinks::take(std::vector<HostTensor>& answers, const Order& ordered) {
  for (const HostTensor& tensor : answers) {
    const auto found = kinks_.find(tensor.name);
    if (found == kinks_.end()) continue;
    Kink& kink = found->second;
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
    auto& [tipped, elements] = by_op[std::string(watched_.training.node(kink.node).op->name())];
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
