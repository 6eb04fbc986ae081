#include "harness/conductor/data/initial_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

// The X of "<prefix>X", above 0; nullopt for any other text.
std::optional<double> number_after(std::string_view prefix, std::string_view initializer) {
  if (!initializer.starts_with(prefix)) return std::nullopt;
  const std::string_view number = initializer.substr(prefix.size());
  double value = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size();
  return whole && std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

double truncated_normal(Philox& random) {
  constexpr double most = 2;
  for (;;)
    if (const double value = random.normal(); std::abs(value) <= most) return value;
}

// The deviation of a normal distribution that has the variance of Glorot's after it is cut at two deviations,
// as Keras's GlorotNormal computes it.
double glorot_deviation(const Shape& shape) {
  constexpr double left_by_the_cut = 0.87962566103423978;
  const auto [in, out] = fans(shape);
  return std::sqrt(2.0 / static_cast<double>(in + out)) / left_by_the_cut;
}

std::string of_kernel(const Shape& shape, InitialScheme scheme) {
  switch (scheme) {
    case InitialScheme::keras:
      return "glorot_uniform";
    case InitialScheme::gluon:
      return "uniform:0.07";
    case InitialScheme::torch:
      return "uniform_fan_in";
    case InitialScheme::glorot_normal:
      return fmt::format("truncated_normal:{}", glorot_deviation(shape));
  }
  throw std::logic_error("no such scheme");
}

std::string of_bias(const Shape& bias, const Shape& kernel, InitialScheme scheme) {
  if (scheme == InitialScheme::torch)
    return fmt::format("uniform:{}", 1 / std::sqrt(static_cast<double>(fans(kernel).in)));
  if (scheme == InitialScheme::glorot_normal) return of_kernel(bias, scheme);
  return "zeros";
}

std::string of_embedding(const Shape& table, InitialScheme scheme) {
  if (scheme == InitialScheme::keras) return "uniform:0.05";
  return scheme == InitialScheme::torch ? "normal:1" : of_kernel(table, scheme);
}

// The initializer of a parameter by the layer that reads it as that operand.
std::string initializer_of(const Graph& graph, const Node& node, std::size_t operand, InitialScheme scheme) {
  const Value& value = graph.value(node.inputs[operand]);
  const std::string_view op = node.op->name();
  if (op == "batch_norm" || op == "layer_norm" || op == "rms_norm") return value.initializer;
  if (op == "convolution" || op == "linear") {
    const Shape& kernel = graph.value(node.inputs[1]).type.shape;
    return operand == 1 ? of_kernel(kernel, scheme) : of_bias(value.type.shape, kernel, scheme);
  }
  if (op == "embedding") return of_embedding(value.type.shape, scheme);
  throw DataError(fmt::format(
      "[initial] got {}: {} is a parameter of the op {}, and no scheme has initial values for it; leave out "
      "--initial",
      to_string(scheme), value.name, op));
}

}  // namespace

Fans fans(const Shape& shape) {
  if (shape.empty()) return {1, 1};
  if (shape.size() == 1) return {shape[0], shape[0]};
  std::int64_t receptive = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) receptive *= shape[d];
  return {shape[1] * receptive, shape[0] * receptive};
}

HostTensor initial_value(std::string_view name, const Shape& shape, std::string_view initializer,
                         std::uint64_t seed) {
  HostTensor tensor = HostTensor::zeros(std::string(name), {DType::f32, shape});
  const std::span<float> values = tensor.as<float>();
  const auto [in, out] = fans(shape);
  const auto fan_in = static_cast<double>(std::max<std::int64_t>(in, 1));
  const auto fan_out = static_cast<double>(std::max<std::int64_t>(out, 1));
  Philox random(seed, name);
  const auto uniform = [&](double bound) {
    for (float& value : values) value = static_cast<float>(random.uniform(-bound, bound));
  };
  if (initializer == "zeros") return tensor;
  if (initializer == "ones") {
    std::fill(values.begin(), values.end(), 1.0f);
  } else if (initializer == "glorot_uniform") {
    uniform(std::sqrt(6 / (fan_in + fan_out)));
  } else if (initializer == "he_normal") {
    const double deviation = std::sqrt(2 / fan_in);
    for (float& value : values) value = static_cast<float>(deviation * random.normal());
  } else if (initializer == "uniform_fan_in") {
    uniform(1 / std::sqrt(fan_in));
  } else if (const auto deviation = number_after("normal:", initializer)) {
    for (float& value : values) value = static_cast<float>(*deviation * random.normal());
  } else if (const auto bound = number_after("uniform:", initializer)) {
    uniform(*bound);
  } else if (const auto before_the_cut = number_after("truncated_normal:", initializer)) {
    for (float& value : values) value = static_cast<float>(*before_the_cut * truncated_normal(random));
  } else {
    throw DataError(
        fmt::format("[initial_value] got '{}' for {}: must be zeros, ones, glorot_uniform, he_normal, "
                    "uniform_fan_in, normal:X, uniform:X or truncated_normal:X",
                    initializer, name));
  }
  return tensor;
}

std::vector<std::string> scheme_initializers(const Graph& graph, InitialScheme scheme) {
  std::vector<std::string> found;
  for (const Value& value : graph.values()) found.push_back(value.initializer);
  std::vector<bool> is_found(found.size());  // a parameter that two layers share belongs to the first
  for (const Node& node : graph.nodes()) {
    for (std::size_t operand = 0; operand < node.inputs.size(); ++operand) {
      const ValueId id = node.inputs[operand];
      if (id == none || graph.value(id).role != Role::parameter) continue;
      const auto at = static_cast<std::size_t>(id);
      if (!is_found[at]) found[at] = initializer_of(graph, node, operand, scheme);
      is_found[at] = true;
    }
  }
  return found;
}

std::vector<HostTensor> initial_values(const Graph& graph, std::uint64_t seed,
                                       std::optional<InitialScheme> scheme) {
  std::vector<std::string> initializers;
  if (scheme) initializers = scheme_initializers(graph, *scheme);
  std::vector<HostTensor> tensors;
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.role != Role::parameter && value.role != Role::state) continue;
    const std::string& initializer = scheme ? initializers[i] : value.initializer;
    tensors.push_back(initial_value(value.name, value.type.shape, initializer, seed));
  }
  return tensors;
}

}  // namespace assay
