#include "tests/workloads/planted/transformer_program.hpp"

#include <array>
#include <cmath>
#include <string>

#include "harness/graph/builder.hpp"

namespace assay {
namespace {

constexpr std::int64_t tokens = 9, vocabulary = 5, width = 8, heads = 2, hidden = 16, classes = 3;

class Network {
 public:
  Network(Graph& graph, const TransformerForm& form, bool training)
      : b_(graph, training), form_(form), training_(training) {}

  void build(std::int64_t batch) {
    Graph& graph = b_.graph();
    const ValueId inputs = b_.tokens("inputs", {batch, tokens});
    const ValueId labels = b_.label("labels", {batch});
    const ValueId mask = form_.masked ? b_.padding_mask(inputs, 0, "mask") : none;
    const ValueId positions = b_.parameter("positions.weight", {tokens, width}, "uniform_fan_in");
    ValueId x = b_.add(b_.embedding("embedding", inputs, vocabulary, width), positions, "sum");
    x = b_.layer_norm("norm0", x, trap_epsilon);
    const ValueId q = split("query", x), k = split("key", x), v = split("value", x);
    const ValueId mixed = form_.over_queries ? attention_over_queries(q, k, v) : attention(q, k, v, mask);
    x = b_.add(x, linear("output", b_.reshape(mixed, {-1, tokens, width}, "joined"), width));
    x = b_.layer_norm("norm1", x, trap_epsilon);
    x = b_.add(x, linear("down", b_.gelu(linear("up", x, hidden)), width));
    x = b_.mean_pool(b_.layer_norm("norm2", x, trap_epsilon), mask);
    const ValueId logits = linear("fc", x, classes);
    graph.add_output("logits", logits);
    if (training_) graph.add_output("loss", b_.softmax_cross_entropy(logits, labels, "loss"));
  }

 private:
  ValueId linear(const std::string& name, ValueId x, std::int64_t features) {
    if (form_.biases) return b_.linear(name, x, features);
    const std::int64_t in = shape_of(x).back();
    const ValueId weight = b_.parameter(name + ".weight", {features, in}, "glorot_uniform");
    const ValueId bias = b_.parameter(name + ".bias", {features}, "zeros");
    return b_.apply("linear", {x, weight, scaled(bias, 0)}, {}, name).front();
  }

  // (N, T, width) -> (N, T, heads, width / heads)
  ValueId split(const std::string& name, ValueId x) {
    return b_.reshape(linear(name, x, width), {-1, tokens, heads, width / heads}, name + ".heads");
  }

  ValueId attention(ValueId q, ValueId k, ValueId v, ValueId mask) {
    return b_.attention(q, moved(k), moved(v), {form_.causal, form_.scale, mask}, "attention");
  }

  // The last query sees the last key: with one key more, each query sees one that is later.
  ValueId moved(ValueId x) {
    if (form_.ahead == 0) return x;
    if (form_.ahead < 0) return b_.slice(x, 1, 0, tokens + form_.ahead);
    const std::array joined{x, b_.slice(x, 1, 0, form_.ahead)};
    return b_.concat(joined, 1);
  }

  // The weights of each key have the sum 1 over the queries.
  ValueId attention_over_queries(ValueId q, ValueId k, ValueId v) {
    q = scaled(q, 1 / std::sqrt(static_cast<double>(width / heads)));
    const ValueId scores = product(by_heads(k), by_heads(q), false, true);
    const ValueId weights = b_.apply("softmax", {scores}).front();
    return by_heads(product(weights, by_heads(v), true, false));
  }

  // (N, S, H, D) -> (N, H, S, D), and back
  ValueId by_heads(ValueId x) {
    return b_.apply("transpose", {x}, {{"permutation", std::vector<std::int64_t>{0, 2, 1, 3}}}).front();
  }

  ValueId product(ValueId a, ValueId b, bool transpose_a, bool transpose_b) {
    return b_.apply("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}}).front();
  }

  ValueId scaled(ValueId x, double factor) {
    const Attributes constant{{"value", factor}, {"shape", shape_of(x)}, {"dtype", std::string("f32")}};
    return b_.apply("multiply", {x, b_.apply("constant", {}, constant).front()}).front();
  }

  const Shape& shape_of(ValueId x) { return b_.graph().value(x).type.shape; }

  GraphBuilder b_;
  const TransformerForm& form_;
  bool training_;
};

}  // namespace

Program transformer_trap_program(std::int64_t batch, const TransformerForm& form) {
  const auto build = [&](bool training) {
    Graph graph("transformer traps");
    Network(graph, form, training).build(batch);
    return graph;
  };
  return {build(true), build(false), OptimizerSpec{.kind = "adamw", .weight_decay = 0.1, .clip_norm = 0.05}};
}

const std::vector<WrongProgram>& wrong_programs() {
  const TransformerForm plain, open{.masked = false}, causal{.causal = true};
  static const std::vector<WrongProgram> programs{
      {"missing_scale", "scores that are not scaled", plain, {.scale = 1}},
      {"softmax_of_queries",
       "a softmax over the queries, not over the keys",
       open,
       {.masked = false, .over_queries = true}},
      {"dropped_bias", "linear layers without their biases", plain, {.biases = false}},
      {"not_causal", "tokens that see all later ones", causal, plain},
      {"sees_next_token",
       "a causal mask that shows the next token",
       {.masked = false, .causal = true},
       {.masked = false, .causal = true, .ahead = 1}},
      {"hides_itself",
       "a causal mask that hides a token from itself",
       {.masked = false, .causal = true},
       {.masked = false, .causal = true, .ahead = -1}},
  };
  return programs;
}

}  // namespace assay
