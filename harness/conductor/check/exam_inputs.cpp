// The samples of an exam, their order in a batch, and their masks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/conductor/check/exam_contents.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

// Whether rows first, first + every, ... below `end` have every sample equally often.
bool has_all_equally(const std::vector<std::int64_t>& rows, std::size_t first, std::size_t end,
                     std::size_t every, std::int64_t distinct) {
  std::vector<int> times(static_cast<std::size_t>(distinct), 0);
  for (std::size_t r = first; r < end; r += every) ++times[static_cast<std::size_t>(rows[r])];
  return std::ranges::adjacent_find(times, std::ranges::not_equal_to()) == times.end();
}

// Whether a half or a quarter of the rows, next to each other or spread over the batch, has every sample equally
// often. Such a part has the mean of the whole batch, so that a step which leaves out the rest looks right.
bool has_a_part_like_the_whole(const std::vector<std::int64_t>& rows, std::int64_t distinct) {
  for (const std::size_t parts : {2, 4}) {
    const std::size_t part = rows.size() / parts;
    for (std::size_t k = 0; k < parts && part > 0; ++k) {
      if (has_all_equally(rows, k * part, (k + 1) * part, 1, distinct)) return true;
      if (has_all_equally(rows, k, rows.size(), parts, distinct)) return true;
    }
  }
  return false;
}

// Row r of the batch is sample row_of[r]: every sample equally often, in shuffled order. No part of the rows is like
// the whole, if there is such an order.
std::vector<std::int64_t> shuffled_rows(std::int64_t batch, std::int64_t distinct, Philox random) {
  constexpr int max_tries = 1000;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(batch));
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = static_cast<std::int64_t>(r) % distinct;
  random.shuffle(std::span(rows));
  for (int tries = 1; tries < max_tries && distinct > 1 && has_a_part_like_the_whole(rows, distinct); ++tries)
    random.shuffle(std::span(rows));
  return rows;
}

// Images with mean 0 and deviation 1, like normalised images; all different.
HostTensor images_of(Shape shape, std::int64_t samples, std::uint64_t seed) {
  shape.front() = samples;
  HostTensor inputs = HostTensor::zeros("inputs", {DType::f32, shape});
  Philox random(seed, "exam/inputs");
  for (float& value : inputs.as<float>())
    value = static_cast<float>(std::sqrt(12.0) * (random.uniform_double() - 0.5));
  return inputs;
}

// Whole numbers below the number of rows of the table that they look up, uniform, so that some tokens appear
// twice. The first and the last row are in every sample: a padding token, or an index that is off by one,
// would use them.
HostTensor tokens_of(Shape shape, std::int64_t vocabulary, std::int64_t samples, std::uint64_t seed) {
  shape.front() = samples;
  HostTensor inputs = HostTensor::zeros("inputs", {DType::i32, shape});
  Philox random(seed, "exam/inputs");
  const std::span<std::int32_t> tokens = inputs.as<std::int32_t>();
  for (std::int32_t& token : tokens)
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
  const std::size_t length = tokens.size() / static_cast<std::size_t>(samples);
  for (std::size_t at = 0; at < tokens.size() && length > 1; at += length) {
    const auto first = static_cast<std::size_t>(random.below(length));
    tokens[at + first] = 0;
    tokens[at + (first + 1) % length] = static_cast<std::int32_t>(vocabulary - 1);
  }
  return inputs;
}

// The token that fills up short samples at their end; nullopt without one.
std::optional<std::int32_t> padding_of(const Graph& graph, ValueId inputs) {
  for (const Node& node : graph.nodes())
    if (node.op->name() == "padding_mask" && node.inputs[0] == inputs)
      return static_cast<std::int32_t>(node.attributes.get<std::int64_t>("padding"));
  return std::nullopt;
}

// Gives the samples different lengths, from one token to all: the first sample is full, the second has one
// token, and the others have any number. Only the places after the last token of a sample are padding.
void cut_texts(HostTensor& inputs, std::int32_t padding, std::int64_t vocabulary, std::uint64_t seed) {
  const std::span<std::int32_t> tokens = inputs.as<std::int32_t>();
  const auto samples = static_cast<std::size_t>(inputs.type.shape.front());
  const std::size_t length = tokens.size() / samples;
  Philox random(seed, "exam/lengths");
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const std::span<std::int32_t> row = tokens.subspan(sample * length, length);
    const std::size_t kept = sample == 0   ? length
                             : sample == 1 ? 1
                                           : 1 + static_cast<std::size_t>(random.below(length));
    for (std::int32_t& token : row.first(kept))
      while (token == padding)
        token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
    std::ranges::fill(row.subspan(kept), padding);
  }
}

// The number of rows of the table that the inputs look up.
std::int64_t vocabulary_of(const Graph& graph, ValueId inputs) {
  for (const Node& node : graph.nodes()) {
    if (node.op->name() == "embedding" && node.inputs[0] == inputs)
      return graph.value(node.inputs[1]).type.shape.front();
  }
  throw GraphError(fmt::format(
      "[check] graph '{}': the vocabulary is unknown, because no embedding reads the tokens", graph.name()));
}

}  // namespace

std::vector<std::int64_t> shuffled_rows_of_ranks(std::int64_t batch, std::int64_t distinct, int ranks,
                                                 std::uint64_t seed) {
  std::vector<std::int64_t> rows;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string stream = rank == 0 ? "exam/rows" : fmt::format("exam/rows/{}", rank);
    for (const std::int64_t row : shuffled_rows(batch / ranks, distinct / ranks, Philox(seed, stream)))
      rows.push_back(rank * (distinct / ranks) + row);
  }
  return rows;
}

HostTensor inputs_of(const Graph& graph, const ExamBatches& batches, std::uint64_t seed) {
  const std::int64_t samples = batches.count() * batches.distinct;
  const ValueId inputs = graph.with_role(Role::input).at(0);
  const TensorType& type = graph.value(inputs).type;
  if (type.dtype != DType::i32) return images_of(type.shape, samples, seed);
  const std::int64_t vocabulary = vocabulary_of(graph, inputs);
  HostTensor tokens = tokens_of(type.shape, vocabulary, samples, seed);
  if (const std::optional<std::int32_t> padding = padding_of(graph, inputs); padding && vocabulary > 1)
    cut_texts(tokens, *padding, vocabulary, seed);
  return tokens;
}

std::vector<HostTensor> masks_of(const Graph& graph, const ExamBatches& batches, std::uint64_t seed) {
  std::vector<HostTensor> masks;
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.inputs) {
      if (id == none || graph.value(id).role != Role::mask) continue;
      const Value& value = graph.value(id);
      const double rate = node.attributes.number("rate");
      Shape shape = value.type.shape;
      shape.front() = batches.distinct;
      HostTensor mask = HostTensor::zeros(value.name, {value.type.dtype, shape});
      Philox random(seed, "exam/" + value.name);
      for (std::uint8_t& kept : mask.as<std::uint8_t>()) kept = random.uniform() >= static_cast<float>(rate);
      masks.push_back(std::move(mask));
    }
  }
  return masks;
}

}  // namespace assay
