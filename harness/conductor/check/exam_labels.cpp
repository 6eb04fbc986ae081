// The labels of an exam.
#include <algorithm>
#include <deque>
#include <iterator>
#include <numeric>

#include "harness/conductor/check/exam_contents.hpp"
#include "harness/core/io/philox.hpp"

namespace assay {
namespace {

// Deals the classes of `deck` in turn, and those of a shuffled deck of all classes when it is empty.
std::vector<std::int32_t> deal(std::deque<std::int32_t>& deck, std::int64_t count, std::int64_t classes,
                               Philox& random) {
  std::vector<std::int32_t> labels;
  while (std::ssize(labels) < count) {
    if (deck.empty()) {
      deck.resize(static_cast<std::size_t>(classes));
      std::iota(deck.begin(), deck.end(), 0);
      std::vector<std::int32_t> shuffled(deck.begin(), deck.end());
      random.shuffle(std::span(shuffled));
      std::ranges::copy(shuffled, deck.begin());
    }
    labels.push_back(deck.front());
    deck.pop_front();
  }
  return labels;
}

}  // namespace

HostTensor labels_of_positions(Shape shape, std::int64_t classes, std::int64_t samples, std::uint64_t seed) {
  shape.front() = samples;
  HostTensor labels = HostTensor::zeros("labels", {DType::i32, shape});
  Philox random(seed, "exam/labels");
  const std::span<std::int32_t> all = labels.as<std::int32_t>();
  for (std::int32_t& label : all)
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes)));
  const std::size_t positions = all.size() / static_cast<std::size_t>(samples);
  const auto first = static_cast<std::size_t>(random.below(positions));
  all[first] = 0;
  if (positions > 1) all[(first + 1) % positions] = static_cast<std::int32_t>(classes - 1);
  return labels;
}

HostTensor labels_of(std::int64_t classes, const ExamBatches& batches, std::uint64_t seed) {
  const std::int64_t distinct = batches.distinct;
  HostTensor labels = HostTensor::zeros("labels", {DType::i32, {batches.count() * distinct}});
  Philox random(seed, "exam/labels");
  std::vector<std::int32_t> ends{0, static_cast<std::int32_t>(classes - 1)}, others;
  if (classes == 1) ends.pop_back();
  for (std::int32_t label = 1; label < classes - 1; ++label) others.push_back(label);
  random.shuffle(std::span(ends));
  random.shuffle(std::span(others));
  std::deque<std::int32_t> deck(ends.begin(), ends.end());
  std::ranges::copy(others, std::back_inserter(deck));
  const bool leaves_one_out = classes > 2 && distinct >= classes;
  std::deque<std::int32_t> first = deck;
  if (leaves_one_out) first.pop_back();
  for (std::int64_t batch = 0; batch < batches.count(); ++batch) {
    std::vector<std::int32_t> dealt;
    if (batch == 0 && leaves_one_out) {
      for (std::int64_t i = 0; i < distinct; ++i)
        dealt.push_back(first[static_cast<std::size_t>(i) % first.size()]);
      deck.clear();
      deck.push_back(others.back());
    } else {
      dealt = deal(deck, distinct, classes, random);
    }
    const auto other = std::ranges::adjacent_find(dealt, std::ranges::not_equal_to());
    if (other == dealt.end() && distinct > 1 && classes > 1)
      dealt.back() = static_cast<std::int32_t>((dealt.back() + 1) % classes);
    random.shuffle(std::span(dealt));
    std::ranges::copy(dealt, labels.as<std::int32_t>().begin() + batch * distinct);
  }
  return labels;
}

std::optional<std::int64_t> absent_class(const HostTensor& labels, std::int64_t batches,
                                         std::int64_t classes) {
  const std::span<const std::int32_t> all = labels.as<std::int32_t>();
  const auto first = all.first(all.size() / static_cast<std::size_t>(batches));
  for (std::int64_t label = classes - 1; label >= 0; --label)
    if (std::ranges::find(first, label) == first.end()) return label;
  return std::nullopt;
}

}  // namespace assay
