#include "harness/data/synthetic.hpp"

#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/io/philox.hpp"

namespace assay {
namespace {

constexpr std::uint64_t seed = 2026;

void fill_with_noise(Philox& random, std::span<std::uint8_t> values) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    word = i % 4 == 0 ? random.next() : word >> 8;
    values[i] = static_cast<std::uint8_t>(word);
  }
}

}  // namespace

SyntheticData make_synthetic(const SyntheticSpec& spec, const std::string& stream) {
  if (spec.classes < 1 || spec.classes > 256)
    throw std::invalid_argument(fmt::format("[synthetic] got {} classes: 1 to 256 are made", spec.classes));
  const auto elements = static_cast<std::size_t>(element_count(spec.sample_shape));
  const auto samples = static_cast<std::size_t>(spec.samples);
  const auto classes = static_cast<std::size_t>(spec.classes);

  SyntheticData data;
  data.labels.resize(samples);
  for (std::size_t i = 0; i < samples; ++i) data.labels[i] = static_cast<std::uint8_t>(i % classes);
  Philox(seed, stream + "/labels").shuffle(std::span(data.labels));

  data.inputs.resize(samples * elements);
  Philox noise(seed, stream + "/noise");
  fill_with_noise(noise, data.inputs);
  if (!spec.learnable) return data;

  std::vector<std::uint8_t> patterns(classes * elements);
  Philox shapes(seed, "patterns");
  fill_with_noise(shapes, patterns);
  for (std::size_t i = 0; i < samples; ++i) {
    std::uint8_t* const input = data.inputs.data() + i * elements;
    const std::uint8_t* const pattern = patterns.data() + data.labels[i] * elements;
    for (std::size_t e = 0; e < elements; ++e)
      input[e] = static_cast<std::uint8_t>((input[e] * 3u + pattern[e]) / 4);
  }
  return data;
}

}  // namespace assay
