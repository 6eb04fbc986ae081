#include "harness/conductor/data/initial_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/philox.hpp"

namespace assay {
namespace {

// The X of normal:X, above 0; nullopt for any other text.
std::optional<double> deviation_of(std::string_view initializer) {
  constexpr std::string_view prefix = "normal:";
  if (!initializer.starts_with(prefix)) return std::nullopt;
  const std::string_view number = initializer.substr(prefix.size());
  double value = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size();
  return whole && std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
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
  } else if (const std::optional<double> deviation = deviation_of(initializer)) {
    for (float& value : values) value = static_cast<float>(*deviation * random.normal());
  } else {
    throw DataError(
        fmt::format("[initial_value] got '{}' for {}: must be zeros, ones, glorot_uniform, he_normal, "
                    "uniform_fan_in or normal:X",
                    initializer, name));
  }
  return tensor;
}

std::vector<HostTensor> initial_values(const Graph& graph, std::uint64_t seed) {
  std::vector<HostTensor> tensors;
  for (const Value& value : graph.values())
    if (value.role == Role::parameter || value.role == Role::state)
      tensors.push_back(initial_value(value.name, value.type.shape, value.initializer, seed));
  return tensors;
}

}  // namespace assay
