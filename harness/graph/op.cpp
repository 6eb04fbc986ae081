#include "harness/graph/op.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/text.hpp"

namespace assay {

std::vector<ValueId> Op::gradient(GraphBuilder&, const Node& node, std::span<const ValueId>) const {
  throw GraphError(fmt::format("[{}] has no gradient (node '{}')", name(), node.name));
}

int group_count(const Op& op, std::size_t inputs) {
  const std::vector<Operand> operands = op.operands();
  const std::size_t once = operands.size();
  const auto group = static_cast<std::size_t>(op.repeats());
  bool fits = inputs >= once && (inputs - once) % std::max<std::size_t>(group, 1) == 0;
  if (group == 0) {
    fits = inputs <= once;
    for (std::size_t i = inputs; i < once; ++i) fits = fits && operands[i].optional;
  }
  if (!fits) {
    throw GraphError(fmt::format("[{}] got {}; it takes {}{}", op.name(), plural(inputs, "operand"), once,
                                 group == 0 ? "" : fmt::format(" and any number of {} more", group)));
  }
  return group == 0 ? 1 : 1 + static_cast<int>((inputs - once) / group);
}

std::size_t result_count(const Op& op, std::size_t inputs) {
  const auto groups = static_cast<std::size_t>(group_count(op, inputs));
  return op.results().size() * (op.results_repeat() ? groups : 1);
}

const Operand& operand_at(const Op& op, const std::vector<Operand>& operands, std::size_t i) {
  if (i < operands.size()) return operands[i];
  const auto group = static_cast<std::size_t>(op.repeats());
  return operands[operands.size() - group + (i - operands.size()) % group];
}

const Result& result_at(const std::vector<Result>& results, std::size_t i) {
  return results[i % results.size()];
}

std::vector<InPlace> in_place(const Node& node) {
  const std::vector<InPlace> once = node.op->in_place();
  const int groups = node.op->results_repeat() ? group_count(*node.op, node.inputs.size()) : 1;
  const auto results = static_cast<int>(node.op->results().size());
  std::vector<InPlace> all;
  for (int g = 0; g < groups; ++g) {
    for (const InPlace& pair : once)
      all.push_back({pair.output + g * results, pair.input + g * node.op->repeats()});
  }
  return all;
}

void remove_unequal(std::vector<InPlace>& pairs, const Graph& graph, const Node& node) {
  const auto value_at = [&](const std::vector<ValueId>& ids, int i) {
    const auto place = static_cast<std::size_t>(i);
    return place < ids.size() ? ids[place] : none;
  };
  std::erase_if(pairs, [&](const InPlace& pair) {
    const ValueId output = value_at(node.outputs, pair.output), input = value_at(node.inputs, pair.input);
    if (output == none || input == none) return false;
    return graph.value(output).type.elements() != graph.value(input).type.elements();
  });
}

Cost cost(const Graph& graph, const Node& node) {
  const std::vector<TensorType> inputs = input_types(graph, node);
  const std::vector<TensorType> outputs = output_types(graph, node);
  Cost cost{node.op->flops(node.attributes, inputs, outputs), 0};
  const auto count = [&](ValueId id) {
    if (id != none && !graph.value(id).opaque)
      cost.bytes += static_cast<double>(graph.value(id).type.bytes());
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    // An operand that occurs twice is read once.
    bool again = false;
    for (std::size_t j = 0; j < i; ++j) again = again || node.inputs[j] == node.inputs[i];
    if (!again) count(node.inputs[i]);
  }
  for (const ValueId id : node.outputs) count(id);
  return cost;
}

}  // namespace assay
