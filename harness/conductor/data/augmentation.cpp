#include "harness/conductor/data/epoch_plan.hpp"

#include <charconv>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/core/error.hpp"

namespace assay {
namespace {

constexpr int max_padding = 256;

[[noreturn]] void reject(std::string_view text) {
  throw DataError(
      fmt::format("[augmentation] got '{}': must be none, crop:PIXELS (1 to {}), flip or crop:PIXELS+flip",
                  text.substr(0, 80), max_padding));
}

}  // namespace

std::string Augmentation::text() const {
  if (none()) return "none";
  std::string words = crop > 0 ? fmt::format("crop:{}", crop) : "";
  if (flip) words += words.empty() ? "flip" : "+flip";
  return words;
}

Augmentation Augmentation::parse(std::string_view text) {
  Augmentation result;
  if (text == "none") return result;
  constexpr std::string_view crop = "crop:";
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (word == "flip" && !result.flip) {
      result.flip = true;
    } else if (word.starts_with(crop) && result.crop == 0) {
      const char* const last = word.data() + word.size();
      const auto [stop, error] = std::from_chars(word.data() + crop.size(), last, result.crop);
      if (error != std::errc() || stop != last || result.crop < 1 || result.crop > max_padding) reject(text);
    } else {
      reject(text);
    }
    begin = end + 1;
  }
  return result;
}

}  // namespace assay
