// "did you mean": the known name that is closest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The fewest insertions, deletions and replacements of a character, and swaps of two neighbours, that turn
// `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);
// "; did you mean 'lenet5'?" when a name is near enough, else "; known are lenet5, mlp".
std::string suggestion(std::string_view name, const std::vector<std::string>& known);

}  // namespace assay
