#include "harness/worker/draws.hpp"

namespace assay {
namespace {

// In a mask: the element was given as 0, so that nobody can tell whether it was kept.
constexpr std::uint8_t unknown = 255;

std::vector<HostTensor> drawn(Executable& executable, std::int64_t step) {
  executable.step(0, 0, step);
  return executable.masks();
}

HostTensor counted(const HostTensor& first, const HostTensor& second) {
  double kept_first = 0, kept_second = 0, equal = 0, all = 0;
  const auto a = first.as<std::uint8_t>(), b = second.as<std::uint8_t>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == unknown || b[i] == unknown) continue;
    kept_first += a[i] != 0;
    kept_second += b[i] != 0;
    equal += (a[i] != 0) == (b[i] != 0);
    ++all;
  }
  HostTensor counts = HostTensor::zeros("draws/" + first.name, {DType::f32, {4}});
  const double values[] = {kept_first, kept_second, equal, all};
  for (std::size_t i = 0; i < 4; ++i) counts.as<float>()[i] = static_cast<float>(values[i]);
  return counts;
}

}  // namespace

std::vector<HostTensor> draw_answers(Executable& executable, const CheckFeeds& feeds) {
  std::vector<HostTensor> answers;
  if (feeds.masks.empty()) return answers;
  executable.supply_masks({});
  const std::int64_t next = feeds.step_count(feeds.steps() - 1) + 1;
  const std::vector<HostTensor> first = drawn(executable, next);
  const std::vector<HostTensor> second = drawn(executable, next + 1);
  for (std::size_t i = 0; i < first.size(); ++i) answers.push_back(counted(first[i], second[i]));
  return answers;
}

}  // namespace assay
