#include "harness/conductor/config/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/text.hpp"

namespace assay {
namespace {

std::string led(std::string_view where, std::string text) {
  return where.empty() ? text : fmt::format("{}: {}", where, text);
}

template <typename T>
bool parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// Seconds of "90", "90s", "30m" or "2h".
bool parse_seconds(std::string_view text, double& seconds) {
  const std::size_t unit_at = std::min(text.find_first_of("smh"), text.size());
  const std::string_view unit = text.substr(unit_at);
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (factor == 0 || !parse(text.substr(0, unit_at), seconds)) return false;
  seconds *= factor;
  return std::isfinite(seconds);
}

bool is_time(const Option& option) { return option.placeholder == "S"; }

bool parse_number(const Option& option, std::string_view text, double& value) {
  return is_time(option) ? parse_seconds(text, value) : parse(text, value) && std::isfinite(value);
}

void check_range(const Option& option, std::string_view value, double number, std::string_view where) {
  if (number >= option.min && number <= option.max) return;
  throw ConfigError(led(where, fmt::format("[{}] got {}: must be from {:.15g} to {:.15g}", option.name, value,
                                           option.min, option.max)));
}

// The last given value, or the default; empty if there is neither.
std::string last_of(const OptionValues& values, std::string_view name) {
  const auto found = values.find(name);
  if (found != values.end() && !found->second.empty()) return found->second.back();
  return std::string(require_option(name, "").default_value);
}

}  // namespace

bool is_wanted(std::string_view id, std::string_view filter) {
  const std::vector<std::string> parts = split(filter, ',');
  return filter.empty() || std::ranges::any_of(parts, [&](const std::string& part) {
           return !part.empty() && id.find(part) != std::string_view::npos;
         });
}

void check_filter(std::string_view filter, const std::vector<std::string>& ids, std::string_view where) {
  if (filter.empty()) return;
  const auto reject = [&](std::string_view text, std::string_view hint) {
    throw ConfigError(fmt::format("[{}] --filter got '{}': no cell has it in its id{}", where, text, hint));
  };
  std::vector<std::string> parts = split(filter, ',');
  std::erase(parts, "");
  if (parts.empty()) reject(filter, "");
  for (const std::string& part : parts) {
    if (std::ranges::any_of(ids, [&](const std::string& id) { return id.find(part) != id.npos; })) continue;
    std::vector<std::string> words;
    for (const std::string& id : ids)
      for (std::string& word : split(id, '/'))
        if (!contains(words, word)) words.push_back(std::move(word));
    reject(part, nearest(part, words));
  }
}

const Option& require_option(std::string_view name, std::string_view where) {
  if (const Option* option = find_option(name)) return *option;
  std::vector<std::string> known;
  for (const Option& option : options()) known.emplace_back(option.name);
  throw ConfigError(led(where, fmt::format("unknown key '{}'{}", name, suggestion(name, known))));
}

void check_value(const Option& option, std::string_view value, std::string_view where) {
  switch (option.type) {
    case OptionType::integer: {
      std::int64_t number = 0;
      if (!parse(value, number)) {
        throw ConfigError(led(where, fmt::format("[{}] got '{}': not a whole number", option.name, value)));
      }
      check_range(option, value, static_cast<double>(number), where);
      return;
    }
    case OptionType::number: {
      double number = 0;
      if (!parse_number(option, value, number))
        throw ConfigError(
            led(where, fmt::format("[{}] got '{}': not a {}", option.name, value,
                                   is_time(option) ? "time such as 90s, 30m or 2h" : "number")));
      check_range(option, value, number, where);
      return;
    }
    case OptionType::flag:
      if (value == "true" || value == "false") return;
      throw ConfigError(led(where, fmt::format("[{}] got '{}': must be true or false", option.name, value)));
    case OptionType::text:
      if (value.empty()) throw ConfigError(led(where, fmt::format("[{}] got an empty value", option.name)));
      if (option.choices.empty()) return;
      for (const std::string_view choice : option.choices) {
        if (choice == value) return;
      }
      throw ConfigError(led(where, fmt::format("[{}] got '{}': must be one of {}", option.name, value,
                                               fmt::join(option.choices, ", "))));
  }
}

void set_option(OptionValues& values, const Option& option, std::string_view given, std::string_view where) {
  std::vector<std::string> parts;
  if (option.scope == OptionScope::axis) {
    parts = split(given, ',');
  } else {
    parts.emplace_back(given);
  }
  for (const std::string& part : parts) check_value(option, part, where);
  std::vector<std::string>& slot = values[std::string(option.name)];
  if (!option.repeatable) slot.clear();
  slot.insert(slot.end(), parts.begin(), parts.end());
}

std::string text_of(const OptionValues& values, std::string_view name) { return last_of(values, name); }

std::int64_t integer_of(const OptionValues& values, std::string_view name) {
  std::int64_t number = 0;
  parse(last_of(values, name), number);
  return number;
}

double number_of(const OptionValues& values, std::string_view name) {
  double number = 0;
  parse_number(require_option(name, ""), last_of(values, name), number);
  return number;
}

double duration_of(const OptionValues& values, std::string_view name) {
  const std::string text = text_of(values, name);
  if (text.empty()) return 0;
  double seconds = 0;
  if (parse_seconds(text, seconds) && seconds > 0 && seconds < 1e10) return seconds;
  throw ConfigError(fmt::format("[{}] got '{}': must be a time such as 90s, 30m or 2h", name, text));
}

double share_of(const std::string& text, std::string_view option, double max) {
  const bool percent = text.ends_with('%');
  try {
    std::size_t end = 0;
    const double value = std::stod(text, &end) / (percent ? 100 : 1);
    const bool whole = end + (percent ? 1 : 0) == text.size();
    if (whole && !percent && value > 1)
      throw ConfigError(fmt::format("{} got '{}': a value above 1 needs a percent sign: {}% or {:g}%", option,
                                    text, text, 100 * value));
    if (whole && value > 0 && value < max) return value;
  } catch (const std::logic_error&) {
    // not a number: reported below
  }
  throw ConfigError(fmt::format("{} got '{}': must be a share such as 5% or 0.05, above 0 and below {:g}%",
                                option, text, 100 * max));
}

std::string as_percent(double share) { return fmt::format("{:g}%", 100 * share); }

bool flag_of(const OptionValues& values, std::string_view name) { return last_of(values, name) == "true"; }

std::vector<std::string> list_of(const OptionValues& values, std::string_view name) {
  const auto found = values.find(name);
  if (found != values.end()) return found->second;
  const std::string_view fallback = require_option(name, "").default_value;
  return fallback.empty() ? std::vector<std::string>{} : std::vector<std::string>{std::string(fallback)};
}

}  // namespace assay
