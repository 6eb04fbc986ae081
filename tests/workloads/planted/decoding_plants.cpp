#include "tests/workloads/planted/decoding_plants.hpp"

#include <algorithm>

namespace assay {
namespace {

std::vector<float> copied(std::span<const float> values) { return {values.begin(), values.end()}; }

// One place of one sample in a cache (N, T, G, D).
class Places {
 public:
  explicit Places(const Shape& cache)
      : count(cache[0] * cache[1]), length_(cache[1]), width_(cache[2] * cache[3]) {}

  bool is_first(std::int64_t place) const { return place % length_ == 0; }
  std::span<const float> of(const std::vector<float>& cache, std::int64_t place) const {
    return std::span(cache).subspan(static_cast<std::size_t>(place * width_),
                                    static_cast<std::size_t>(width_));
  }
  std::span<float> of(std::span<float> cache, std::int64_t place) const {
    return cache.subspan(static_cast<std::size_t>(place * width_), static_cast<std::size_t>(width_));
  }

  std::int64_t count;

 private:
  std::int64_t length_, width_;
};

// What is written goes to the place after its own.
void write_late(PlantedCall& call) {
  const std::vector<float> old = copied(call.in(0));
  call.run();
  const std::vector<float> written = copied(call.out(0));
  const Places places(call.in_shape(0));
  const auto is_written = [&](std::int64_t place) {
    return !std::ranges::equal(places.of(old, place), places.of(written, place));
  };
  for (std::int64_t place = 0; place < places.count; ++place) {
    const bool late = !places.is_first(place) && is_written(place - 1);
    std::ranges::copy(late ? places.of(written, place - 1) : places.of(old, place),
                      places.of(call.out(0), place).begin());
  }
}

void write_nothing(PlantedCall& call) {
  const std::vector<float> old = copied(call.in(0));
  call.run();
  if (call.in_shape(1)[1] == 1) std::ranges::copy(old, call.out(0).begin());
}

// Each key gets the mask of the key before it (by 1) or after it (by -1).
void shift_mask(PlantedCall& call, int by) {
  call.run();
  const std::vector<float> mask = copied(call.out(0));
  const auto last = static_cast<int>(mask.size()) - 1;
  for (int key = 0; key <= last; ++key)
    call.out(0)[static_cast<std::size_t>(key)] =
        mask[static_cast<std::size_t>(std::clamp(key - by, 0, last))];
}

}  // namespace

const std::vector<Plant>& decoding_plants() {
  static const std::vector<Plant> plants{
      {"cache_late", "keys and values that are written one place late", {"cache_write"}, write_late},
      {"cache_not_written", "new tokens that no later token sees", {"cache_write"}, write_nothing},
      {"sees_next_place",
       "a mask that shows the place after the token",
       {"cache_mask"},
       [](PlantedCall& call) { shift_mask(call, 1); }},
      {"hides_itself",
       "a mask that hides the token from itself",
       {"cache_mask"},
       [](PlantedCall& call) { shift_mask(call, -1); }},
  };
  return plants;
}

}  // namespace assay
