#include "harness/conductor/data/initial_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>

#include "harness/core/error.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/graph/program.hpp"

namespace assay {
namespace {

float signal(Philox& random) { return static_cast<float>(std::sqrt(12.0) * (random.uniform_double() - 0.5)); }

std::int64_t below(std::string_view fill) {
  const std::string_view digits = fill.substr(std::string_view("below:").size());
  std::int64_t bound = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), bound);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || bound < 1)
    throw DataError(fmt::format("[operands] got '{}': the N of below:N must be at least 1", fill));
  return bound;
}

void hide_padding(std::span<float> elements, std::int64_t steps, Philox& random) {
  const std::int64_t shortest = (steps + 3) / 4;
  const auto choices = static_cast<double>(steps - shortest + 1);
  for (std::size_t text = 0; text < elements.size(); text += static_cast<std::size_t>(steps)) {
    const auto longer = static_cast<std::int64_t>(choices * random.uniform_double());
    const std::int64_t length = std::min(shortest + longer, steps);
    const std::span<float> mask = elements.subspan(text, static_cast<std::size_t>(steps));
    std::fill_n(mask.begin(), length, 0.0F);
    std::fill(mask.begin() + length, mask.end(), -std::numeric_limits<float>::infinity());
  }
}

void fill(std::span<float> elements, const Value& value, Philox& random) {
  const std::string_view word = value.initializer;
  if (word == "signal") {
    for (float& element : elements) element = signal(random);
  } else if (word == "weight") {
    const auto fan_in = static_cast<double>(value.type.elements() / value.type.shape.front());
    const auto limit = static_cast<float>(std::sqrt(2 / std::max(1.0, fan_in)));
    for (float& element : elements) element = limit * signal(random);
  } else if (word == "positive") {
    for (float& element : elements) {
      do element = static_cast<float>(0.5 + random.uniform_double());
      while (std::abs(element - 1) < 0.02F);
    }
  } else if (word == "wide") {
    for (float& element : elements) {
      do element = static_cast<float>(16 * random.uniform_double() - 8);
      while (std::abs(element - std::round(element)) < 0.001F);
    }
  } else if (word.starts_with("below:")) {
    const auto bound = static_cast<double>(below(word));
    for (float& element : elements)
      element = static_cast<float>(std::min(std::floor(bound * random.uniform_double()), bound - 1));
  } else if (word == "padding") {
    hide_padding(elements, value.type.shape.back(), random);
  } else if (word == "fraction") {
    for (std::size_t i = 0; i + 1 < elements.size(); i += 2) {
      elements[i] = 1;
      elements[i + 1] = signal(random);
    }
  } else {
    throw DataError(fmt::format(
        "[operands] got '{}' for {}: must be signal, weight, positive, wide, below:N, padding or fraction",
        word, value.name));
  }
}

}  // namespace

std::vector<float> draw_operands(const Graph& graph, std::int64_t samples, std::uint64_t seed,
                                 std::string_view stream, std::int64_t batch) {
  const auto row = static_cast<std::size_t>(input_elements(graph) / batch);
  std::vector<float> all(row * static_cast<std::size_t>(samples));
  for (const auto& [name, input] : packed_inputs(graph, batch)) {
    const Value& value = graph.value(graph.find(name));
    Philox random(seed, fmt::format("{}/{}", stream, name));
    for (std::size_t sample = 0; sample < static_cast<std::size_t>(samples); ++sample) {
      fill(std::span(all).subspan(sample * row + static_cast<std::size_t>(input.offset),
                                  static_cast<std::size_t>(input.elements)),
           value, random);
    }
  }
  return all;
}

}  // namespace assay
