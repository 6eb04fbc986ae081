#include "harness/conductor/data/synthetic_tokens.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/conductor/data/synthetic.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/philox.hpp"

namespace assay {
namespace {

constexpr std::int32_t start = 1, first_word = 3;
constexpr std::uint64_t own_one_in = 4, faithful = 4, of = 5, shares = 8;
constexpr std::uint64_t successors = 4;

std::int32_t word(std::uint64_t index) { return static_cast<std::int32_t>(index) + first_word; }

}  // namespace

SyntheticTokens make_synthetic_tokens(const SyntheticTokensSpec& spec, const std::string& stream) {
  if (spec.classes < 1) throw DataError(fmt::format("[synthetic] got {} classes", spec.classes));
  if (spec.vocabulary < first_word + spec.classes + 1)
    throw DataError(fmt::format("[synthetic] got a vocabulary of {} for {} classes: must be {}",
                                spec.vocabulary, spec.classes, first_word + spec.classes + 1));
  if (spec.padding > 0)
    throw DataError(fmt::format("[synthetic] got the padding token {}: must be 0", spec.padding));
  const auto classes = static_cast<std::uint64_t>(spec.classes);
  const auto words = static_cast<std::uint64_t>(spec.vocabulary) - first_word;
  const std::uint64_t own = std::max<std::uint64_t>(1, words / (shares * classes));  // words of a class
  const std::uint64_t owned = own * classes;
  const auto length = static_cast<std::uint64_t>(spec.length);

  SyntheticTokens data;
  data.labels.resize(static_cast<std::size_t>(spec.samples));
  for (std::size_t i = 0; i < data.labels.size(); ++i)
    data.labels[i] = static_cast<std::int32_t>(i % classes);
  Philox(synthetic_seed, stream + "/labels").shuffle(std::span(data.labels));

  data.inputs.resize(data.labels.size() * length);
  Philox random(synthetic_seed, stream + "/words");
  for (std::size_t i = 0; i < data.labels.size(); ++i) {
    const std::span<std::int32_t> row(data.inputs.data() + i * length, length);
    const std::uint64_t text = length - random.below(length - length / 4);
    const std::uint64_t begin = spec.padding == 0 ? 0 : length - text, end = begin + text;
    if (text > 0) row[begin] = start;
    for (std::uint64_t place = begin + 1; place < end; ++place) {
      if (!spec.learnable || random.below(own_one_in) > 0) {
        row[place] = word(owned + random.below(words - owned));
        continue;
      }
      const std::uint64_t owner =
          random.below(of) < faithful ? static_cast<std::uint64_t>(data.labels[i]) : random.below(classes);
      row[place] = word(owner * own + random.below(own));
    }
  }
  return data;
}

SyntheticTokens make_synthetic_chains(const SyntheticTokensSpec& spec, const std::string& stream) {
  if (spec.vocabulary < 2)
    throw DataError(fmt::format("[synthetic] got a vocabulary of {}: must be 2", spec.vocabulary));
  const auto words = static_cast<std::uint64_t>(spec.vocabulary);
  const auto length = static_cast<std::size_t>(spec.length);
  std::vector<std::int32_t> next(static_cast<std::size_t>(words * successors));
  Philox rule(synthetic_seed, "successors");
  for (std::int32_t& token : next) token = static_cast<std::int32_t>(rule.below(words));

  SyntheticTokens data;
  data.inputs.resize(static_cast<std::size_t>(spec.samples) * length);
  data.labels.resize(data.inputs.size());
  Philox random(synthetic_seed, stream + "/chains");
  for (std::size_t first = 0; first < data.inputs.size(); first += length) {
    std::uint64_t token = random.below(words);
    for (std::size_t place = first; place < first + length; ++place) {
      data.inputs[place] = static_cast<std::int32_t>(token);
      const bool follows = spec.learnable && random.below(of) < faithful;
      token = follows ? static_cast<std::uint64_t>(next[token * successors + random.below(successors)])
                      : random.below(words);
      data.labels[place] = static_cast<std::int32_t>(token);
    }
  }
  return data;
}

}  // namespace assay
