#include "tests/workloads/planted/transformer_plants.hpp"

#include <algorithm>
#include <cmath>

#include "harness/graph/builder.hpp"

namespace assay {
namespace {

constexpr double epsilon = 1e-3;  // so large that its place shows

std::vector<float> copied(std::span<const float> values) { return {values.begin(), values.end()}; }

void use_tanh(PlantedCall& call) {
  const std::vector<float> x = copied(call.in(0));
  call.run();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    call.out(0)[i] =
        static_cast<float>(0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))));
  }
}

// Each key gets the mask of the key before it.
void shift_mask(PlantedCall& call) {
  std::vector<float> mask = copied(call.in(3));
  const auto keys = static_cast<std::ptrdiff_t>(call.in_shape(3).back());
  for (auto row = mask.begin(); row != mask.end(); row += keys) std::rotate(row, row + keys - 1, row + keys);
  call.replace(3, mask);
  call.run();
}

// For a mask that is operand i.
void unmask(PlantedCall& call, std::size_t i) {
  std::vector<float> mask(call.in(i).size(), 0.0f);
  call.replace(i, mask);
  call.run();
}

void leave_out_scale(PlantedCall& call) {
  std::vector<float> q = copied(call.in(0));
  for (float& value : q) value *= std::sqrt(static_cast<float>(call.in_shape(0).back()));
  call.replace(0, q);
  call.run();
}

// y of the softmax over the queries, not over the keys. Each head has keys and values of its own, and the mask is
// that of the keys.
void normalise_queries(PlantedCall& call) {
  const std::vector<float> q = copied(call.in(0)), k = copied(call.in(1)), v = copied(call.in(2)),
                           mask = copied(call.in(3));
  const Shape shape = call.in_shape(0);
  const auto at = [&](std::int64_t n, std::int64_t s, std::int64_t h, std::int64_t d) {
    return static_cast<std::size_t>(((n * shape[1] + s) * shape[2] + h) * shape[3] + d);
  };
  call.run();
  std::ranges::fill(call.out(0), 0.0f);
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t h = 0; h < shape[2]; ++h) {
      for (std::int64_t t = 0; t < shape[1]; ++t) {
        if (std::isinf(mask[static_cast<std::size_t>(n * shape[1] + t)])) continue;
        std::vector<double> weights;
        double sum = 0;
        for (std::int64_t s = 0; s < shape[1]; ++s) {
          double score = 0;
          for (std::int64_t d = 0; d < shape[3]; ++d)
            score += static_cast<double>(q[at(n, s, h, d)]) * static_cast<double>(k[at(n, t, h, d)]);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(shape[3]))));
          sum += weights.back();
        }
        for (std::int64_t s = 0; s < shape[1]; ++s) {
          const double weight = weights[static_cast<std::size_t>(s)] / sum;
          for (std::int64_t d = 0; d < shape[3]; ++d)
            call.out(0)[at(n, s, h, d)] +=
                static_cast<float>(weight * static_cast<double>(v[at(n, t, h, d)]));
        }
      }
    }
  }
}

// y with epsilon added to the deviation, not to the variance.
void move_epsilon(PlantedCall& call) {
  const std::vector<float> x = copied(call.in(0)), scale = copied(call.in(1)), shift = copied(call.in(2));
  call.run();
  const std::size_t width = scale.size();
  for (std::size_t row = 0; row < x.size(); row += width) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < width; ++i) mean += static_cast<double>(x[row + i]);
    mean /= static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) variance += std::pow(static_cast<double>(x[row + i]) - mean, 2);
    const double deviation = std::sqrt(variance / static_cast<double>(width)) + epsilon;
    for (std::size_t i = 0; i < width; ++i)
      call.out(0)[row + i] = static_cast<float>((static_cast<double>(x[row + i]) - mean) / deviation *
                                                    static_cast<double>(scale[i]) +
                                                static_cast<double>(shift[i]));
  }
}

void drop(PlantedCall& call, std::size_t operand) {
  std::vector<float> zeros(call.in(operand).size(), 0.0f);
  call.replace(operand, zeros);
  call.run();
}

void couple_decay(PlantedCall& call) {
  const auto decay = static_cast<float>(call.attributes().number("weight_decay"));
  const std::vector<float> old = copied(call.in(1));
  std::vector<float> gradient = copied(call.in(2));
  const float rate = call.in(0)[0];
  for (std::size_t i = 0; i < old.size(); ++i) gradient[i] += decay * old[i];
  call.replace(2, gradient);
  call.run();
  for (std::size_t i = 0; i < old.size(); ++i) call.out(0)[i] += rate * decay * old[i];
}

}  // namespace

const std::vector<Plant>& transformer_plants() {
  static const std::vector<Plant> plants{
      {"gelu_tanh", "the tanh formula of GELU for that with erf", {"gelu"}, use_tanh},
      {"mask_off_by_one", "a mask that is moved by one key", {"attention"}, shift_mask},
      {"unmasked", "padding that attention sees", {"attention"}, [](PlantedCall& call) { unmask(call, 3); }},
      {"missing_scale", "scores that are not scaled", {"attention"}, leave_out_scale},
      {"softmax_of_queries",
       "a softmax over the queries, not over the keys",
       {"attention"},
       normalise_queries},
      {"padding_counts",
       "a mean that counts padding",
       {"mean_pool"},
       [](PlantedCall& call) { unmask(call, 1); }},
      {"norm_epsilon", "epsilon outside of the root of a layer norm", {"layer_norm"}, move_epsilon},
      {"dropped_shift",
       "a layer norm without its shift",
       {"layer_norm"},
       [](PlantedCall& call) { drop(call, 2); }},
      {"dropped_bias",
       "a linear layer without its bias",
       {"linear"},
       [](PlantedCall& call) { drop(call, 2); }},
      {"coupled_decay", "the weight decay of AdamW in the gradient", {"adam"}, couple_decay},
      {"unclipped",
       "gradients that are not clipped",
       {"clip"},
       [](PlantedCall& call) {
         const std::vector<float> gradient = copied(call.in(0));
         call.run();
         std::ranges::copy(gradient, call.out(0).begin());
       }},
  };
  return plants;
}

Program transformer_trap_program(std::int64_t batch) {
  constexpr std::int64_t tokens = 9, vocabulary = 5, width = 8, heads = 2, hidden = 16, classes = 3;
  const auto build = [&](bool training) {
    Graph graph("transformer traps");
    GraphBuilder b(graph, training);
    const ValueId inputs = b.tokens("inputs", {batch, tokens});
    const ValueId labels = b.label("labels", {batch});
    const ValueId mask = b.padding_mask(inputs, 0, "mask");
    const ValueId positions = b.parameter("positions.weight", {tokens, width}, "uniform_fan_in");
    ValueId x = b.add(b.embedding("embedding", inputs, vocabulary, width), positions, "sum");
    x = b.layer_norm("norm0", x, epsilon);
    const auto split = [&](const std::string& name) {
      return b.reshape(b.linear(name, x, width), {-1, tokens, heads, width / heads}, name + ".heads");
    };
    const ValueId q = split("query"), k = split("key"), v = split("value");
    const ValueId mixed = b.attention(q, k, v, {.mask = mask}, "attention");
    x = b.add(x, b.linear("output", b.reshape(mixed, {-1, tokens, width}, "joined"), width));
    x = b.layer_norm("norm1", x, epsilon);
    x = b.add(x, b.linear("down", b.gelu(b.linear("up", x, hidden)), width));
    x = b.mean_pool(b.layer_norm("norm2", x, epsilon), mask);
    const ValueId logits = b.linear("fc", x, classes);
    graph.add_output("logits", logits);
    if (training) graph.add_output("loss", b.softmax_cross_entropy(logits, labels, "loss"));
    return graph;
  };
  return {build(true), build(false), {.kind = "adamw", .weight_decay = 0.1, .clip_norm = 0.05}};
}

}  // namespace assay
