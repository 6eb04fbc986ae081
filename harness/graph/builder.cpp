#include "harness/graph/builder.hpp"

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

Attributes window_attributes(const Window& window) {
  return {{"kernel", window.kernel}, {"stride", window.stride}, {"padding", window.padding}};
}

// The size of one dimension; throws a readable error if the rank is not the one that the layer needs.
const Shape& shape_of(const Graph& graph, ValueId x, std::size_t rank, std::string_view layer) {
  const Shape& shape = graph.value(x).type.shape;
  if (shape.size() != rank) {
    throw GraphError(
        fmt::format("[{}] got x {}: it must have {}", layer, to_string(shape), plural(rank, "dimension")));
  }
  return shape;
}

std::int64_t last_of(const Graph& graph, ValueId x, std::string_view layer) {
  const Shape& shape = graph.value(x).type.shape;
  if (shape.empty())
    throw GraphError(fmt::format("[{}] got x {}: a scalar has no last dimension", layer, to_string(shape)));
  return shape.back();
}

}  // namespace

ValueId GraphBuilder::input(std::string name, Shape shape) {
  return graph_.add_value(std::move(name), {DType::f32, std::move(shape)}, Role::input);
}

ValueId GraphBuilder::tokens(std::string name, Shape shape) {
  return graph_.add_value(std::move(name), {DType::i32, std::move(shape)}, Role::input);
}

ValueId GraphBuilder::label(std::string name, Shape shape) {
  return graph_.add_value(std::move(name), {DType::i32, std::move(shape)}, Role::label);
}

ValueId GraphBuilder::parameter(std::string name, Shape shape, std::string initializer) {
  return graph_.add_value(std::move(name), {DType::f32, std::move(shape)}, Role::parameter,
                          std::move(initializer));
}

ValueId GraphBuilder::state(std::string name, Shape shape, std::string initializer) {
  return graph_.add_value(std::move(name), {DType::f32, std::move(shape)}, Role::state,
                          std::move(initializer));
}

ValueId GraphBuilder::convolution(std::string name, ValueId x, std::int64_t channels, Window window,
                                  bool bias, std::string initializer) {
  const std::int64_t in = shape_of(graph_, x, 4, "convolution")[1];
  const ValueId w =
      parameter(name + ".weight", {channels, in, window.kernel, window.kernel}, std::move(initializer));
  const ValueId b = bias ? parameter(name + ".bias", {channels}, "zeros") : none;
  return apply("convolution", {x, w, b}, {{"stride", window.stride}, {"padding", window.padding}}, name)
      .front();
}

ValueId GraphBuilder::linear(std::string name, ValueId x, std::int64_t features, bool bias,
                             std::string initializer) {
  const Shape& shape = graph_.value(x).type.shape;
  if (shape.size() < 2) {
    throw GraphError(fmt::format("[linear] got x {}: it must have two dimensions or more", to_string(shape)));
  }
  const std::int64_t in = shape.back();
  const ValueId w = parameter(name + ".weight", {features, in}, std::move(initializer));
  const ValueId b = bias ? parameter(name + ".bias", {features}, "zeros") : none;
  return apply("linear", {x, w, b}, {}, name).front();
}

ValueId GraphBuilder::batch_norm(std::string name, ValueId x, double momentum, double epsilon) {
  const std::int64_t channels = shape_of(graph_, x, 4, "batch_norm")[1];
  if (norm_momentum_ > 0) momentum = norm_momentum_;
  const ValueId weight = parameter(name + ".weight", {channels}, "ones");
  const ValueId bias = parameter(name + ".bias", {channels}, "zeros");
  const ValueId mean = state(name + ".running_mean", {channels}, "zeros");
  const ValueId variance = state(name + ".running_variance", {channels}, "ones");
  const Attributes attributes{{"epsilon", epsilon}, {"momentum", momentum}, {"training", training_}};
  const std::vector<ValueId> results =
      apply("batch_norm", {x, weight, bias, mean, variance}, attributes, name);
  if (training_) {
    graph_.add_update(mean, results[3]);
    graph_.add_update(variance, results[4]);
  }
  return results.front();
}

ValueId GraphBuilder::layer_norm(std::string name, ValueId x, double epsilon) {
  const std::int64_t width = last_of(graph_, x, "layer_norm");
  const ValueId scale = parameter(name + ".weight", {width}, "ones");
  const ValueId shift = parameter(name + ".bias", {width}, "zeros");
  return apply("layer_norm", {x, scale, shift}, {{"epsilon", epsilon}}, name).front();
}

ValueId GraphBuilder::rms_norm(std::string name, ValueId x, double epsilon) {
  const ValueId scale = parameter(name + ".weight", {last_of(graph_, x, "rms_norm")}, "ones");
  return apply("rms_norm", {x, scale}, {{"epsilon", epsilon}}, name).front();
}

ValueId GraphBuilder::embedding(std::string name, ValueId indices, std::int64_t rows, std::int64_t width,
                                std::string initializer) {
  const ValueId w = parameter(name + ".weight", {rows, width}, std::move(initializer));
  Attributes attributes;
  if (sparse_embeddings_) attributes.set("sparse_gradient", true);
  return apply("embedding", {indices, w}, std::move(attributes), name).front();
}

ValueId GraphBuilder::lstm(std::string name, ValueId x, std::int64_t units, bool last) {
  const std::int64_t in = shape_of(graph_, x, 3, "lstm")[2];
  const ValueId w = parameter(name + ".weight", {4 * units, in}, "uniform_fan_in");
  const ValueId r = parameter(name + ".recurrent_weight", {4 * units, units}, "uniform_fan_in");
  const ValueId b = parameter(name + ".bias", {4 * units}, "zeros");
  return apply("lstm", {x, w, r, b}, {{"last", last}}, name).front();
}

ValueId GraphBuilder::relu(ValueId x, std::string name) {
  return apply("relu", {x}, {}, std::move(name)).front();
}

ValueId GraphBuilder::gelu(ValueId x, std::string name, std::string approximate) {
  return apply("gelu", {x}, {{"approximate", std::move(approximate)}}, std::move(name)).front();
}

ValueId GraphBuilder::silu(ValueId x, std::string name) {
  return apply("silu", {x}, {}, std::move(name)).front();
}

ValueId GraphBuilder::average_pool(ValueId x, Window window, std::string name) {
  return apply("average_pool", {x}, window_attributes(window), std::move(name)).front();
}

ValueId GraphBuilder::max_pool(ValueId x, Window window, std::string name) {
  return apply("max_pool", {x}, window_attributes(window), std::move(name)).front();
}

ValueId GraphBuilder::flatten(ValueId x, std::string name) {
  return apply("flatten", {x}, {}, std::move(name)).front();
}

ValueId GraphBuilder::dropout(ValueId x, double rate, std::string name) {
  if (!training_) return x;
  if (name.empty()) name = unique("dropout");
  const ValueId mask = graph_.add_value(name + ".mask", {DType::u8, graph_.value(x).type.shape}, Role::mask);
  return apply("dropout", {x, mask}, {{"rate", rate}}, name).front();
}

ValueId GraphBuilder::add(ValueId a, ValueId b, std::string name) {
  return apply("add", {a, b}, {}, std::move(name)).front();
}

ValueId GraphBuilder::reshape(ValueId x, Shape shape, std::string name) {
  return apply("reshape", {x}, {{"shape", std::move(shape)}}, std::move(name)).front();
}

ValueId GraphBuilder::slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t end,
                            std::string name) {
  return apply("slice", {x}, {{"axis", axis}, {"begin", begin}, {"end", end}}, std::move(name)).front();
}

ValueId GraphBuilder::attention(ValueId q, ValueId k, ValueId v, const AttentionOptions& options,
                                std::string name) {
  if (decoding_) return decoding_attention(q, k, v, options, std::move(name));
  return apply("attention", {q, k, v, options.mask}, {{"causal", options.causal}, {"scale", options.scale}},
               std::move(name))
      .front();
}

ValueId GraphBuilder::cached(std::string name, ValueId x) {
  const Shape& shape = graph_.value(x).type.shape;
  const ValueId cache = graph_.add_value(
      name, {DType::f32, {shape[0], decoding_->length, shape[2], shape[3]}}, Role::cache, "zeros");
  const ValueId written =
      apply("cache_write", {cache, x, decoding_->position}, {}, name + ".written").front();
  graph_.add_update(cache, written);
  return written;
}

// A prompt begins at the first place, so that its tokens see only each other.
ValueId GraphBuilder::decoding_attention(ValueId q, ValueId k, ValueId v, const AttentionOptions& options,
                                         std::string name) {
  if (name.empty()) name = unique("attention");
  // Copies: new values move the others.
  const Shape queries = graph_.value(q).type.shape, keys = graph_.value(k).type.shape;
  if (!options.causal || options.mask != none || keys.size() != 4 || queries.size() != 4 ||
      keys[1] != queries[1]) {
    throw GraphError(
        fmt::format("[attention] {}: task decode needs a causal attention of tokens to themselves, "
                    "without a mask",
                    name));
  }
  const ValueId all_keys = cached(name + ".keys", k), all_values = cached(name + ".values", v);
  if (!decoding_->step) {
    return apply("attention", {q, k, v, none}, {{"causal", true}, {"scale", options.scale}}, name).front();
  }
  // All layers read the same mask.
  constexpr const char* mask_name = "cache_mask";
  ValueId mask = graph_.find(mask_name);
  if (mask == none) {
    mask = apply("cache_mask", {decoding_->position}, {{"queries", queries[1]}, {"keys", decoding_->length}},
                 mask_name)
               .front();
  }
  return apply("attention", {q, all_keys, all_values, mask}, {{"causal", false}, {"scale", options.scale}},
               name)
      .front();
}

ValueId GraphBuilder::rotary(ValueId x, double base, bool interleaved, std::string name) {
  if (decoding_ && decoding_->step)
    throw GraphError(
        "[rotary] task decode does not support it: the op has no operand for the first position");
  return apply("rotary", {x}, {{"base", base}, {"interleaved", interleaved}}, std::move(name)).front();
}

ValueId GraphBuilder::padding_mask(ValueId tokens, std::int64_t padding, std::string name) {
  return apply("padding_mask", {tokens}, {{"padding", padding}}, std::move(name)).front();
}

ValueId GraphBuilder::mean_pool(ValueId x, ValueId mask, std::string name) {
  return apply("mean_pool", {x, mask}, {}, std::move(name)).front();
}

ValueId GraphBuilder::concat(std::span<const ValueId> values, std::int64_t axis, std::string name) {
  return apply("concat", values, {{"axis", axis}}, std::move(name)).front();
}

ValueId GraphBuilder::global_average_pool(ValueId x, std::string name) {
  shape_of(graph_, x, 4, "global_average_pool");
  return apply("reduce", {x}, {{"kind", std::string("mean")}, {"axes", std::vector<std::int64_t>{2, 3}}},
               std::move(name))
      .front();
}

ValueId GraphBuilder::softmax_cross_entropy(ValueId logits, ValueId labels, std::string name,
                                            std::optional<std::int64_t> ignored) {
  Attributes attributes;
  if (ignored) attributes.set("ignored", *ignored);
  return apply("softmax_cross_entropy", {logits, labels}, std::move(attributes), std::move(name)).front();
}

std::vector<ValueId> GraphBuilder::apply(std::string_view op_name, std::span<const ValueId> inputs,
                                         Attributes attributes, std::string name, std::vector<bool> wanted) {
  const Op& op = find_op(op_name);
  if (name.empty()) name = unique(op_name);
  if (wanted.empty() && !training_) {
    for (const Result& result : op.results()) wanted.push_back(!result.optional);
  }
  const NodeId node = graph_.add_node(op, std::move(name), inputs, std::move(attributes), std::move(wanted));
  return graph_.node(node).outputs;
}

std::string GraphBuilder::unique(std::string_view stem) const {
  std::string name(stem);
  for (int i = 2; graph_.find(name) != none || graph_.find_node(name) != none; ++i)
    name = fmt::format("{}_{}", stem, i);
  return name;
}

}  // namespace assay
