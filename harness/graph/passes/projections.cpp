#include "harness/graph/passes/projections.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/graph/op.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/passes/rewrite.hpp"

namespace assay {
namespace {

class JoinedProjections {
 public:
  explicit JoinedProjections(const Graph& graph) : graph_(graph), rewrite_(graph) {}

  Graph result() {
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      if (is_attention(graph_.node(id))) join(id);
    }
    for (const auto& [add, by] : sums_) rewrite_.replace(add, graph_.node(add).outputs[0], by);
    return rewrite_.result().pruned();
  }

 private:
  static constexpr std::size_t parts = 3;  // q, k, v
  template <typename T>
  using Parts = std::array<T, parts>;

  // One of the three on its way to the attention.
  struct Forward {
    NodeId linear = none, view = none;
  };
  // The way back of one of the three.
  struct Backward {
    NodeId view = none, input_gradient = none, weight_gradient = none;
  };

  // Operands of linear, and of linear_input_gradient.
  static constexpr std::size_t weight_operand = 1, bias_operand = 2, residual_operand = 3;
  static constexpr std::size_t relu_operand = 2, addend_operand = 3;

  static ValueId operand(const Node& node, std::size_t i) {
    return i < node.inputs.size() ? node.inputs[i] : none;
  }
  static bool is_attention(const Node& node) {
    return node.op == &attention_op() || node.op == &attention_gradient_op();
  }
  std::string named(const std::string& stem) const { return free_name(graph_, stem); }
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  // The node of this op whose first result is the value, if nothing but `reader` reads it.
  NodeId only_maker(ValueId id, const Op& op, NodeId reader) const {
    const NodeId maker = graph_.value(id).producer;
    const bool fits = maker != none && graph_.node(maker).op == &op && graph_.node(maker).outputs[0] == id;
    return fits && rewrite_.only_read_by(id, reader) ? maker : none;
  }

  // The parameter that a weight is, or is the narrow copy of; `none` for others.
  ValueId parameter_of(ValueId id) const {
    const NodeId maker = graph_.value(id).producer;
    if (maker != none && graph_.node(maker).op == &cast_op()) id = graph_.node(maker).inputs[0];
    return graph_.value(id).role == Role::parameter ? id : none;
  }

  std::optional<Forward> forward_of(ValueId head) const {
    Forward found{none, graph_.value(head).producer};
    if (found.view == none || graph_.node(found.view).op != &reshape_op() || rewrite_.visible(head))
      return {};
    found.linear = only_maker(graph_.node(found.view).inputs[0], linear_op(), found.view);
    if (found.linear == none) return {};
    const Node& linear = graph_.node(found.linear);
    const Shape &heads = shape(head), &weight = shape(linear.inputs[weight_operand]);
    const bool splits = weight[0] == heads[2] * heads[3];
    const bool plain = !linear.attributes.has("activation") && operand(linear, residual_operand) == none;
    if (!splits || !plain || parameter_of(linear.inputs[weight_operand]) == none) return {};
    const ValueId bias = operand(linear, bias_operand);
    return bias == none || graph_.value(bias).role == Role::parameter ? std::optional(found) : std::nullopt;
  }

  // The same x, parameters of one type, and all with a bias or none.
  bool are_alike(const Parts<Forward>& all) const {
    const auto type_of = [&](const Node& linear, std::size_t i) -> std::optional<DType> {
      const ValueId id = operand(linear, i);
      return id == none ? std::nullopt : std::optional(graph_.value(parameter_of(id)).type.dtype);
    };
    const Node& first = graph_.node(all[0].linear);
    return std::ranges::all_of(all, [&](const Forward& part) {
      const Node& linear = graph_.node(part.linear);
      return linear.inputs[0] == first.inputs[0] &&
             type_of(linear, weight_operand) == type_of(first, weight_operand) &&
             type_of(linear, bias_operand) == type_of(first, bias_operand);
    });
  }

  // The nodes that read the three, which are all attentions of them.
  std::vector<NodeId> readers_of(const Parts<ValueId>& heads) const {
    std::vector<NodeId> readers = rewrite_.readers(heads[0]);
    const auto reads_all = [&](NodeId id) {
      return is_attention(graph_.node(id)) &&
             std::ranges::equal(heads, std::span(graph_.node(id).inputs).first(parts));
    };
    const bool only = std::ranges::all_of(readers, reads_all) &&
                      std::ranges::all_of(heads, [&](ValueId v) { return rewrite_.readers(v) == readers; });
    return only ? readers : std::vector<NodeId>();
  }

  std::optional<Backward> backward_of(const Node& gradient, std::size_t i, ValueId weight) const {
    const ValueId head = gradient.outputs[i];
    const std::vector<NodeId>& views = rewrite_.readers(head);
    if (rewrite_.visible(head) || views.size() != 1 || graph_.node(views[0]).op != &reshape_op()) return {};
    Backward found{views[0]};
    const ValueId dy = graph_.node(found.view).outputs[0];
    if (rewrite_.visible(dy) || shape(dy).back() != shape(weight)[0]) return {};
    for (const NodeId id : rewrite_.readers(dy)) {
      const Node& reader = graph_.node(id);
      const bool of_input = reader.op == &linear_input_gradient_op() && reader.inputs[0] == dy &&
                            parameter_of(reader.inputs[weight_operand]) == parameter_of(weight) &&
                            operand(reader, relu_operand) == none && operand(reader, addend_operand) == none;
      const bool of_weight =
          reader.op == &linear_weight_gradient_op() && reader.inputs[1] == dy && reader.inputs[0] != dy;
      if (!of_input && !of_weight) return {};
      NodeId& place = of_input ? found.input_gradient : found.weight_gradient;
      if (std::exchange(place, id) != none) return {};
    }
    return found;
  }

  // All of them have the same gradients, the weights' of the same x.
  bool are_alike(const Parts<Backward>& all) const {
    const auto x = [&](const Backward& part) {
      return part.weight_gradient == none ? none : graph_.node(part.weight_gradient).inputs[0];
    };
    const auto has_bias = [&](const Backward& part) {
      return part.weight_gradient != none && graph_.node(part.weight_gradient).outputs[1] != none;
    };
    return std::ranges::all_of(all, [&](const Backward& part) {
      return (part.input_gradient == none) == (all[0].input_gradient == none) && x(part) == x(all[0]) &&
             has_bias(part) == has_bias(all[0]);
    });
  }

  // The only reader of a term, if it adds another one of its shape; else `none`.
  NodeId add_of(ValueId term) const {
    if (rewrite_.visible(term) || rewrite_.readers(term).size() != 1) return none;
    const NodeId reader = rewrite_.readers(term)[0];
    const Node& add = graph_.node(reader);
    const bool adds = add.op->name() == "add" && !add.attributes.has("activation");
    return adds && shape(add.inputs[0]) == shape(add.inputs[1]) ? reader : none;
  }

  // Whether the gradients of x that the three pass back are only terms of one sum.
  bool are_one_sum(const Parts<Backward>& all) const {
    Parts<ValueId> sums;
    for (std::size_t i = 0; i < parts; ++i) {
      ValueId term = graph_.node(all[i].input_gradient).outputs[0];
      if (add_of(term) == none) return false;
      while (add_of(term) != none) term = graph_.node(add_of(term)).outputs[0];
      sums[i] = term;
    }
    return sums[0] == sums[1] && sums[1] == sums[2];
  }

  // Takes a term out of its sum: the add that reads it becomes the other term.
  void take_out(ValueId term) {
    for (NodeId add = add_of(term); add != none; add = add_of(term)) {
      const std::vector<ValueId>& terms = graph_.node(add).inputs;
      if (sums_.try_emplace(add, terms[terms[0] == term ? 1 : 0]).second) return;
      term = graph_.node(add).outputs[0];  // the other term was taken out of this one
    }
  }

  // The first node that comes after all of these parameters.
  NodeId after(const Parts<ValueId>& parameters) const {
    const ValueId last = std::ranges::max(parameters);
    NodeId id = 0;
    while (std::ranges::max(graph_.node(id).outputs) < last) ++id;
    return id;
  }

  // The rows of three parameters, one after the other, in the type of their copies: a value that is made once.
  ValueId rows_of(const std::string& name, const Parts<ValueId>& copies) {
    Parts<ValueId> parameters;
    std::ranges::transform(copies, parameters.begin(), [&](ValueId copy) { return parameter_of(copy); });
    const DType dtype = graph_.value(copies[0]).type.dtype;
    const auto [found, is_new] = rows_.try_emplace({parameters, dtype}, none);
    if (!is_new) return found->second;
    found->second = rewrite_.fresh();
    Attributes attributes{{"axis", std::int64_t{0}}};
    if (dtype != graph_.value(parameters[0]).type.dtype)
      attributes.set("dtype", std::string(to_string(dtype)));
    rewrite_.insert_after(
        after(parameters),
        {named(name), &concat_op(), attributes, {parameters.begin(), parameters.end()}, {found->second}});
    return found->second;
  }

  void join(NodeId attention) {
    const std::span<const ValueId> inputs = std::span(graph_.node(attention).inputs).first(parts);
    Parts<ValueId> heads;
    std::ranges::copy(inputs, heads.begin());
    if (heads[0] == heads[1] || heads[1] == heads[2] || heads[0] == heads[2]) return;
    if (!seen_.insert(heads).second) return;
    const std::vector<NodeId> readers = readers_of(heads);
    if (readers.empty()) return;
    Parts<Forward> forward;
    Parts<ValueId> weights, biases;
    for (std::size_t i = 0; i < parts; ++i) {
      const std::optional<Forward> found = forward_of(heads[i]);
      if (!found) return;
      forward[i] = *found;
      weights[i] = graph_.node(found->linear).inputs[weight_operand];
      biases[i] = operand(graph_.node(found->linear), bias_operand);
    }
    if (!are_alike(forward)) return;
    std::map<NodeId, Parts<Backward>> backward;  // by gradient
    for (const NodeId id : readers) {
      const Node& gradient = graph_.node(id);
      if (gradient.op != &attention_gradient_op()) continue;
      Parts<Backward>& back = backward[id];
      for (std::size_t i = 0; i < parts; ++i) {
        const std::optional<Backward> found = backward_of(gradient, i, weights[i]);
        if (!found) return;
        back[i] = *found;
      }
      if (!are_alike(back)) return;
      // Activations that are computed again may come after the attention's gradient.
      const NodeId weight_gradient = back[0].weight_gradient;
      if (weight_gradient != none && graph_.value(graph_.node(weight_gradient).inputs[0]).producer > id)
        return;
      // The gradient of x is that of all three: it takes the place of the first.
      if (back[0].input_gradient != none && !are_one_sum(back)) return;
    }
    for (const auto& [id, back] : backward) {
      for (std::size_t i = 1; i < parts && back[0].input_gradient != none; ++i)
        take_out(graph_.node(back[i].input_gradient).outputs[0]);
    }
    const std::string name = graph_.node(attention).name + ".projections";
    const auto [weight, projected] = join_forward(name, forward, weights, biases);
    for (const NodeId id : readers) {
      Node& node = rewrite_.node(id);
      std::ranges::fill(std::span(node.inputs).first(parts), projected);
      node.attributes.set("heads", shape(heads[0])[2]);
    }
    for (const auto& [id, back] : backward) join_backward(id, back, weight);
  }

  // Returns the weight of all three, and the heads that it makes.
  std::pair<ValueId, ValueId> join_forward(const std::string& name, const Parts<Forward>& forward,
                                           const Parts<ValueId>& weights, const Parts<ValueId>& biases) {
    const NodeId last = std::max({forward[0].linear, forward[1].linear, forward[2].linear});
    const ValueId weight = rows_of(name + ".weight", weights);
    const ValueId bias = biases[0] == none ? none : rows_of(name + ".bias", biases);
    const ValueId y = rewrite_.fresh(), projected = rewrite_.fresh();
    Shape heads = shape(graph_.node(forward[0].view).outputs[0]);
    for (std::size_t i = 1; i < parts; ++i) heads[2] += shape(graph_.node(forward[i].view).outputs[0])[2];
    rewrite_.insert_after(
        last, {named(name), &linear_op(), {}, {graph_.node(forward[0].linear).inputs[0], weight, bias}, {y}});
    rewrite_.insert_after(last,
                          {named(name + ".heads"), &reshape_op(), {{"shape", heads}}, {y}, {projected}});
    for (const Forward& part : forward) {
      rewrite_.drop(part.linear);
      rewrite_.drop(part.view);
    }
    return {weight, projected};
  }

  void join_backward(NodeId id, const Parts<Backward>& back, ValueId weight) {
    Node& gradient = rewrite_.node(id);
    const std::string name = gradient.name + ".projections.gradient";
    const ValueId heads = rewrite_.fresh(), dy = rewrite_.fresh();
    gradient.outputs = {heads, none, none};
    Shape rows = shape(graph_.node(back[0].view).outputs[0]);
    for (std::size_t i = 1; i < parts; ++i) rows.back() += shape(graph_.node(back[i].view).outputs[0]).back();
    rewrite_.insert_after(id, {named(name), &reshape_op(), {{"shape", rows}}, {heads}, {dy}});
    if (back[0].input_gradient != none) {
      const Node& first = graph_.node(back[0].input_gradient);
      rewrite_.insert_after(id, {first.name, first.op, {}, {dy, weight, none, none}, {first.outputs[0]}});
    }
    if (back[0].weight_gradient != none) join_weight_gradients(id, name, back, dy);
    for (const Backward& part : back) {
      for (const NodeId node : {part.view, part.input_gradient, part.weight_gradient})
        if (node != none) rewrite_.drop(node);
    }
  }

  void join_weight_gradients(NodeId id, const std::string& name, const Parts<Backward>& back, ValueId dy) {
    const Node& first = graph_.node(back[0].weight_gradient);
    const bool bias = first.outputs[1] != none;
    const Parts<ValueId> all{rewrite_.fresh(), bias ? rewrite_.fresh() : none, none};
    rewrite_.insert_after(id,
                          {named(name + ".weights"), first.op, {}, {first.inputs[0], dy}, {all[0], all[1]}});
    for (const std::size_t result : {0U, 1U}) {
      std::int64_t begin = 0;
      for (const Backward& part : back) {
        const ValueId own = graph_.node(part.weight_gradient).outputs[result];
        if (own == none) continue;
        const std::int64_t end = begin + shape(own)[0];
        rewrite_.insert_after(id, {graph_.value(own).name,
                                   &slice_op(),
                                   {{"axis", std::int64_t{0}}, {"begin", begin}, {"end", end}},
                                   {all[result]},
                                   {own}});
        begin = end;
      }
    }
  }

  const Graph& graph_;
  Rewrite rewrite_;
  std::set<Parts<ValueId>> seen_;                             // the heads of attentions
  std::map<std::pair<Parts<ValueId>, DType>, ValueId> rows_;  // by the three parameters
  std::map<NodeId, ValueId> sums_;                            // adds that become one of their terms
};

}  // namespace

Graph join_projections(const Graph& graph) { return JoinedProjections(graph).result(); }

std::string_view attribute_of_joined(const Op& op, const Attributes& attributes) {
  if (&op == &concat_op()) return attributes.has("dtype") ? "dtype" : "";
  const bool attention = &op == &attention_op() || &op == &attention_gradient_op();
  return attention && attributes.has("heads") ? "heads" : "";
}

}  // namespace assay
