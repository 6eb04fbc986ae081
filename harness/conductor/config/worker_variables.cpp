#include "harness/conductor/config/worker_variables.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/environment.hpp"

namespace assay {
namespace {

bool is_name_of_variable(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// Why the variable cannot be given; empty if it can.
std::string refusal_of(std::string_view name) {
  static constexpr std::array<std::string_view, 4> threads{"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                                           "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"};
  if (contains(threads, name)) return "the number of threads is an axis: use --threads";
  if (name == "TMPDIR" || name == "XDG_CACHE_HOME" || name.starts_with("ASSAY_"))
    return "Assay sets it for its workers: set it for Assay itself";
  if (!may_be_listed(name)) return "it may hold a secret, and the report would show it";
  return {};
}

}  // namespace

std::map<std::string, std::string> parse_environment(const std::vector<std::string>& given) {
  std::map<std::string, std::string> variables;
  for (const std::string& item : given) {
    const std::size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    if (equals == std::string::npos || !is_name_of_variable(name))
      throw ConfigError(
          fmt::format("[environment] got '{}': must be NAME=VALUE, such as OMP_WAIT_POLICY=passive",
                      one_line(item, 100)));
    if (const std::string refusal = refusal_of(name); !refusal.empty())
      throw ConfigError(fmt::format("[environment] got {}: {}", name, refusal));
    const std::string value = item.substr(equals + 1);
    if (one_line(value, 4000) != value)
      throw ConfigError(fmt::format(
          "[environment] got {}: its value has control characters, blanks in a row or over 4000 bytes",
          name));
    if (find_bad_utf8(value) != std::string::npos)
      throw ConfigError(
          fmt::format("[environment] got {}: its value is not UTF-8, so the report cannot keep it", name));
    variables[name] = value;
  }
  return variables;
}

bool may_be_in_config(std::string_view variable) {
  static constexpr std::array<std::string_view, 6> prefixes{"OMP_",  "GOMP_",   "KMP_",
                                                            "DNNL_", "ONEDNN_", "MALLOC_"};
  return !variable.starts_with("OMP_TOOL") &&
         std::ranges::any_of(prefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

}  // namespace assay
