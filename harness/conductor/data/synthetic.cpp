#include "harness/conductor/data/synthetic.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/philox.hpp"

namespace assay {
namespace {

constexpr std::int64_t max_synthetic_classes = 100'000;
constexpr std::int64_t grid = 4;   // values per channel along each side
constexpr std::int64_t one = 256;  // 1 in fixed point, so that all machines get the same bits
constexpr std::size_t grid_values = grid * grid;
constexpr std::int64_t moves = 16;

void fill_with_noise(Philox& random, std::span<std::uint8_t> values) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    word = i % 4 == 0 ? random.next() : word >> 8;
    values[i] = static_cast<std::uint8_t>(word);
  }
}

// The place of a pixel between two values of the grid.
struct Place {
  std::size_t low = 0, high = 0;
  std::uint32_t weight = 0;  // of high, in 256ths
};

Place place(std::int64_t pixel, std::int64_t extent) {
  const std::int64_t at =
      std::clamp<std::int64_t>((2 * pixel + 1) * grid * one / (2 * extent) - one / 2, 0, (grid - 1) * one);
  const auto low = static_cast<std::size_t>(at / one);
  return {low, std::min<std::size_t>(low + 1, grid - 1), static_cast<std::uint32_t>(at % one)};
}

std::uint32_t mix(std::uint32_t a, std::uint32_t b, std::uint32_t weight) {
  return (a * (256 - weight) + b * weight) / 256;
}

struct Extents {
  std::int64_t channels = 1, height = 1, width = 1;
  explicit Extents(const Shape& shape) {
    width = shape.empty() ? 1 : shape.back();
    if (shape.size() > 1) height = shape[shape.size() - 2];
    channels = element_count(shape) / (height * width);
  }
};

// Blends the picture with the grid `values`, moved by (dx, dy), half into `image`.
void draw(const Extents& size, std::span<const std::uint8_t> values, std::int64_t dx, std::int64_t dy,
          std::uint8_t* image) {
  std::vector<Place> columns(static_cast<std::size_t>(size.width));
  for (std::int64_t x = 0; x < size.width; ++x)
    columns[static_cast<std::size_t>(x)] = place(x + dx, size.width);
  for (std::int64_t c = 0; c < size.channels; ++c) {
    const std::uint8_t* const at = values.data() + static_cast<std::size_t>(c) * grid_values;
    for (std::int64_t y = 0; y < size.height; ++y) {
      const Place row = place(y + dy, size.height);
      std::array<std::uint32_t, grid> line;
      for (std::size_t i = 0; i < grid; ++i)
        line[i] = mix(at[row.low * grid + i], at[row.high * grid + i], row.weight);
      for (const Place& column : columns) {
        *image =
            static_cast<std::uint8_t>((*image + mix(line[column.low], line[column.high], column.weight)) / 2);
        ++image;
      }
    }
  }
}

}  // namespace

SyntheticData make_synthetic(const SyntheticSpec& spec, const std::string& stream) {
  if (spec.classes < 1 || spec.classes > max_synthetic_classes)
    throw DataError(
        fmt::format("[synthetic] got {} classes: must be 1 to {}", spec.classes, max_synthetic_classes));
  const auto elements = static_cast<std::size_t>(element_count(spec.sample_shape));
  const auto samples = static_cast<std::size_t>(spec.samples);

  SyntheticData data;
  data.labels.resize(samples);
  for (std::size_t i = 0; i < samples; ++i)
    data.labels[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(spec.classes));
  Philox(synthetic_seed, stream + "/labels").shuffle(std::span(data.labels));

  data.inputs.resize(samples * elements);
  Philox noise(synthetic_seed, stream + "/noise");
  fill_with_noise(noise, data.inputs);
  if (!spec.learnable) return data;

  const Extents size(spec.sample_shape);
  const std::size_t picture = static_cast<std::size_t>(size.channels) * grid_values;
  std::vector<std::uint8_t> pictures(static_cast<std::size_t>(spec.classes) * picture);
  Philox shapes(synthetic_seed, "patterns");
  fill_with_noise(shapes, pictures);
  Philox random(synthetic_seed, stream + "/moves");
  const auto move = [&](std::int64_t extent) {
    const std::int64_t most = extent / moves;
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(2 * most + 1))) - most;
  };
  for (std::size_t i = 0; i < samples; ++i) {
    const std::int64_t dx = move(size.width), dy = move(size.height);
    draw(size, std::span(pictures).subspan(static_cast<std::size_t>(data.labels[i]) * picture, picture), dx,
         dy, data.inputs.data() + i * elements);
  }
  return data;
}

}  // namespace assay
