#include "backends/cuda/choices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "harness/core/io/sha256.hpp"

namespace assay::cuda {

std::string Choices::engines() const {
  if (engines_.empty()) return "none";
  std::string all;
  for (const auto& [spec, engine] : engines_) all += fmt::format("{}: {}\n", spec, engine);
  return fmt::format("{} of {}", sha256(all).substr(0, 12), engines_.size());
}

void Choices::refuse(const std::string& engine, const std::string& spec, double error, double allowed) {
  refused_.insert(engine);
  fmt::print(stderr, "{} is left out: its result is off by {:.1e}, and rounding explains {:.1e}: {}\n",
             engine, error, allowed, spec);
}

std::string Choices::refused() const {
  return refused_.empty() ? "none" : fmt::format("{}", fmt::join(refused_, ", "));
}

std::string Choices::fallbacks() const {
  std::vector<std::string> parts;
  for (const auto& [kind, count] : fallbacks_) parts.push_back(fmt::format("{} {}", kind, count));
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace assay::cuda
