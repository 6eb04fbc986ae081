// The options that a user may set, and their given values: from the command line, from a config, or both.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.hpp"
#include "harness/core/option.hpp"

namespace assay {

// The axes (harness/report/axes.hpp), then the settings.
std::vector<std::reference_wrapper<const Option>> options();
// nullptr if not found.
const Option* find_option(std::string_view name);
// Throws ConfigError with the nearest known name; the text begins with `where` ("quickstart.json:
// $.cells[0]").
const Option& require_option(std::string_view name, std::string_view where);

// The given values by option name. Absent: the default.
using OptionValues = std::map<std::string, std::vector<std::string>, std::less<>>;

// For --filter: whether `id` contains one of the texts between the commas of `filter`. True for an empty
// filter.
bool is_wanted(std::string_view id, std::string_view filter);
// Throws ConfigError, led by `where`, if one of these texts is in none of the ids, or if there is no text.
void check_filter(std::string_view filter, const std::vector<std::string>& ids, std::string_view where);
// Splits at commas if the option is an axis, checks each value and replaces earlier values (a repeatable
// option adds to them). Throws ConfigError prefixed with `where`.
void set_option(OptionValues& values, const Option& option, std::string_view text, std::string_view where);
// Throws ConfigError if `value` does not have the option's type, range or choices.
void check_value(const Option& option, std::string_view value, std::string_view where);

// The last value given, or the default; an empty text if there is neither.
std::string text_of(const OptionValues& values, std::string_view name);
std::int64_t integer_of(const OptionValues& values, std::string_view name);
// Seconds if the option is a time.
double number_of(const OptionValues& values, std::string_view name);
// Seconds of a time such as 90s, 30m or 2h; 0 if not given. Throws ConfigError.
double duration_of(const OptionValues& values, std::string_view name);
// Of "5%" or "0.05", above 0 and below `max`. Above 1 it needs the percent sign. Throws ConfigError led by `option`.
double share_of(const std::string& text, std::string_view option, double max);
// "5%"
std::string as_percent(double share);
bool flag_of(const OptionValues& values, std::string_view name);
std::vector<std::string> list_of(const OptionValues& values, std::string_view name);

}  // namespace assay
