#include "backends/cuda/engine_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

SearchResult fastest_engine(Engines& engines, Memory& trial, const SearchLimits& limits) {
  std::vector<std::int64_t> built;
  int generated = 0;
  std::int64_t largest = 0;
  for (std::int64_t i = 0; i < engines.count() && static_cast<int>(built.size()) < limits.built; ++i) {
    const bool generates = engines.is_generated(i);
    if ((generates && generated == limits.generated) || !engines.build(i)) continue;
    generated += generates ? 1 : 0;
    largest = std::max(largest, engines.workspace_bytes(i));
    built.push_back(i);
  }
  const Storage workspace(trial, largest, "the search of an engine");
  // As in a step, where other kernels have written it: an engine must not need zeros.
  const auto spoil = [&] {
    if (largest > 0) fill_with_noise(trial, workspace.data(), largest / 4 * 4, DType::f32);
  };
  std::vector<FoundEngine> runs;
  for (const std::int64_t engine : built) {
    spoil();
    if (const std::optional<double> seconds = engines.measure(engine, workspace.data()))
      runs.push_back({engine, *seconds});
  }
  std::ranges::stable_sort(runs, {}, &FoundEngine::seconds);
  SearchResult result;
  for (const FoundEngine& run : runs) {
    double error = 0;
    try {
      spoil();
      if (!std::isinf(limits.error)) error = engines.error(run.engine, workspace.data());
    } catch (const std::exception&) {
      continue;  // as an engine that does not run
    }
    if (error <= limits.error) {  // which a result that is not a number never is
      result.fastest = run;
      break;
    }
    result.wrong.push_back({run.engine, error});
  }
  return result;
}

double allowed_error(DType operands, DType result, bool tf32, std::int64_t terms, int roundings) {
  constexpr double less_than_tf32 = 0x1p-13;  // a quarter of what its rounding makes
  const auto count = static_cast<double>(terms);
  double allowed = std::min(less_than_tf32, 0x1p-21 * (16 + std::sqrt(count)));
  if (tf32 || operands == DType::bf16) allowed += 0x1p-28 * count;
  if (tf32) allowed += 0x1p-9;
  if (result == DType::bf16) allowed += 0x1p-8 * roundings;
  return allowed;
}

void fill_with_noise(Memory& memory, void* to, std::int64_t bytes, DType dtype, std::uint32_t seed,
                     float scale) {
  constexpr std::int64_t period = 65521;  // a prime: rows of a matrix do not repeat
  const auto size = static_cast<std::size_t>(size_of(dtype));
  std::vector<std::byte> numbers(static_cast<std::size_t>(std::min(bytes, period * size_of(dtype))));
  std::uint32_t state = 1 + seed * 2654435761U;  // Knuth's multiplier sets the seeds apart
  for (std::size_t at = 0; at + size <= numbers.size(); at += size) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator
    const float value = scale * (static_cast<float>(state >> 8) * 0x1p-23F - 1.0F);
    const Bf16 narrowed = narrow<Bf16>(value);
    std::memcpy(numbers.data() + at, dtype == DType::bf16 ? static_cast<const void*>(&narrowed) : &value,
                size);
  }
  if (numbers.empty()) return;
  memory.copy(to, memory.land(numbers.data(), static_cast<std::int64_t>(numbers.size())),
              static_cast<std::int64_t>(numbers.size()));
  auto* const target = static_cast<std::byte*>(to);
  for (auto done = static_cast<std::int64_t>(numbers.size()); done < bytes;) {
    const std::int64_t more = std::min(done, bytes - done);
    memory.copy(target + done, target, more);
    done += more;
  }
}

void* NoiseBuffers::add(std::int64_t elements, DType dtype, float scale) {
  const Storage& storage = storages_.emplace_back(memory_, elements * size_of(dtype), purpose_);
  fill_with_noise(memory_, storage.data(), storage.bytes(), dtype,
                  static_cast<std::uint32_t>(storages_.size()), scale);
  return storage.data();
}

}  // namespace assay::cuda
