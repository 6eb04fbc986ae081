#include "harness/report/axes.hpp"

#include <algorithm>
#include <charconv>
#include <climits>
#include <concepts>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/core/text.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

template <typename T>
T number_in(std::string_view text) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

const Axis& require_axis(std::string_view name) {
  if (const Axis* axis = find_axis(name)) return *axis;
  throw std::out_of_range(fmt::format("unknown axis '{}'", name));
}

std::string one_spelling(const Axis& axis, std::string_view text) {
  if (text.empty()) return {};
  if (axis.option.type == OptionType::integer) return std::to_string(number_in<std::int64_t>(text));
  if (axis.option.type == OptionType::number) return fmt::format("{}", number_in<double>(text));
  return std::string(text);
}

void set_field(std::string& field, std::string_view text) { field = text; }
void set_field(bool& field, std::string_view text) { field = text == "true"; }
template <std::integral T>
void set_field(T& field, std::string_view text) {
  field = number_in<T>(text);
}
template <Worded E>
void set_field(E& field, std::string_view text) {
  field = from_word<E>(text).value();
}
template <typename T>
void set_field(std::optional<T>& field, std::string_view text) {
  set_field(field.emplace(), text);
}

template <typename T>
std::string field_text(const T& value) {
  return fmt::format("{}", value);
}
template <Worded E>
std::string field_text(const E& value) {
  return std::string(to_string(value));
}
template <typename T>
std::string field_text(const std::optional<T>& value) {
  return value ? field_text(*value) : std::string();
}

// Whether the id and the title of a cell name the axis.
bool is_named(const Axis& axis, const Axes& axes) {
  if (!axis.matters_to(axes)) return false;
  return axis.identity != Identity::if_set ||
         axis_text(axis, axes) != one_spelling(axis, axis.option.default_value);
}

std::string spelt(std::string_view pattern, const Axis& axis, std::string_view value) {
  return fmt::format(fmt::runtime(pattern), value, axis.name());
}

// The rows in order, with one more for each axis of a report that this program does not know.
class Rows {
 public:
  explicit Rows(const Axes& axes) : order_(axes_in_order()) {
    for (const auto& [name, value] : axes.variant)
      if (!find_axis(name)) unknown_.push_back({.option = {.name = name, .scope = OptionScope::axis}});
    for (const Axis& axis : unknown_) order_.push_back(&axis);
    if (!unknown_.empty()) std::ranges::stable_sort(order_, comes_before);
  }
  auto begin() const { return order_.begin(); }
  auto end() const { return order_.end(); }

 private:
  std::deque<Axis> unknown_;
  std::vector<const Axis*> order_;
};

std::string title(const Axes& axes, bool with_sweep) {
  const Rows rows(axes);
  std::string all;
  for (const TitlePart part :
       {TitlePart::work, TitlePart::machine, TitlePart::operands, TitlePart::setup, TitlePart::own}) {
    std::string words;
    for (const Axis* axis : rows) {
      if (axis->part != part || (axis->sweep && !with_sweep) || !is_named(*axis, axes)) continue;
      // A single op is always timed in steps.
      if (axis->identity == Identity::last && axes.is_op()) continue;
      const std::string value = axis_text(*axis, axes);
      if (value.empty()) continue;
      if (!words.empty()) words += part == TitlePart::own ? ", " : " ";
      words += spelt(axis->title, *axis, value);
    }
    if (!words.empty()) all += (all.empty() ? "" : ", ") + words;
  }
  return all;
}

}  // namespace

std::string Axes::text(std::string_view axis) const { return axis_text(require_axis(axis), *this); }
std::int64_t Axes::integer(std::string_view axis) const { return number_in<std::int64_t>(text(axis)); }
double Axes::number(std::string_view axis) const { return number_in<double>(text(axis)); }
bool Axes::flag(std::string_view axis) const { return text(axis) == "true"; }

int Axes::extra_threads() const {
  return static_cast<int>(std::min<std::int64_t>(loader_threads(), integer("loader-threads")));
}

int Axes::all_threads() const {
  const std::int64_t all = std::int64_t{threads} + extra_threads();
  return static_cast<int>(std::clamp<std::int64_t>(all, INT_MIN, INT_MAX));
}

int Axes::ranks() const { return static_cast<int>(std::clamp<std::int64_t>(integer("ranks"), 1, INT_MAX)); }

std::string Axis::key() const {
  std::string key(name());
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

bool Axis::has_key(std::string_view text) const {
  return std::ranges::equal(name(), text,
                            [](char of_name, char c) { return c == (of_name == '-' ? '_' : of_name); });
}

bool Axis::applies_to(CellKind kind) const {
  return applies == AppliesTo::every || (applies == AppliesTo::op) == (kind == CellKind::op);
}

const Axis* find_axis(std::string_view name) {
  const auto found = std::ranges::find(axis_table(), name, &Axis::name);
  return found == axis_table().end() ? nullptr : &*found;
}

std::string axis_text(const Axis& axis, const Axes& axes) {
  return std::visit(
      [&](auto field) -> std::string {
        if constexpr (std::is_same_v<decltype(field), std::monostate>) {
          const auto found = axes.variant.find(std::string(axis.name()));
          return found == axes.variant.end() ? one_spelling(axis, axis.option.default_value) : found->second;
        } else {
          return field_text(axes.*field);
        }
      },
      axis.field);
}

void set_axis(const Axis& axis, Axes& axes, std::string_view text) {
  std::visit(
      [&](auto field) {
        if constexpr (!std::is_same_v<decltype(field), std::monostate>) {
          if (text.empty())
            axes.*field = Axes().*field;
          else
            set_field(axes.*field, text);
        } else if (const std::string value = one_spelling(axis, text);
                   value == one_spelling(axis, axis.option.default_value)) {
          axes.variant.erase(std::string(axis.name()));
        } else {
          axes.variant[std::string(axis.name())] = value;
        }
      },
      axis.field);
}

Json axis_json(const Axis& axis, const Axes& axes) {
  const std::string text = axis_text(axis, axes);
  switch (axis.option.type) {
    case OptionType::text:
      if (text.empty() && !axis.has_field()) return nullptr;
      return text;
    case OptionType::integer:
      return text.empty() ? Json(nullptr) : Json(number_in<std::int64_t>(text));
    case OptionType::number:
      return text.empty() ? Json(nullptr) : Json(number_in<double>(text));
    case OptionType::flag:
      break;
  }
  return text == "true";
}

std::string cell_id_without(const Axes& axes, const std::function<bool(const Axis&)>& hidden) {
  std::string id;
  for (const Axis* axis : Rows(axes)) {
    if (!is_named(*axis, axes)) continue;
    if (!hidden(*axis)) {
      const std::string value = axis_text(*axis, axes);
      id += spelt(axis->id, *axis, value.empty() ? "none" : value);
    } else if (axis->identity != Identity::if_set) {
      id += "/*";
    }
  }
  return id.substr(1);
}

std::string cell_id(const Axes& axes) {
  return cell_id_without(axes, [](const Axis&) { return false; });
}

std::vector<std::string> short_ids(std::span<const Axes* const> cells) {
  const auto same_in_all = [&](const Axis& axis) {
    return std::all_of(cells.begin(), cells.end(), [&](const Axes* axes) {
      return axis_text(axis, *axes) == axis_text(axis, *cells.front());
    });
  };
  std::set<std::string> hidden;
  for (const Axis& axis : axis_table()) {
    const bool is_name = axis.name() == "workload" || axis.name() == "backend" || axis.name() == "mode";
    if (!is_name && same_in_all(axis)) hidden.emplace(axis.name());
  }
  std::vector<std::string> ids;
  for (const Axes* axes : cells) {
    std::string id =
        cell_id_without(*axes, [&](const Axis& axis) { return hidden.contains(std::string(axis.name())); });
    constexpr std::string_view mark = "/*";
    for (std::size_t at; (at = id.find(mark)) != id.npos;) id.erase(at, mark.size());
    // The name of an op has a slash of its own: "op/relu".
    const std::size_t name = axes->is_op() ? axes->workload.size() : 0;
    std::replace(id.begin() + static_cast<std::ptrdiff_t>(std::min(name, id.size())), id.end(), '/', ' ');
    ids.push_back(std::move(id));
  }
  return ids;
}

std::string group_title(const Axes& axes) { return title(axes, true); }
std::string family_title(const Axes& axes) { return title(axes, false); }

std::vector<std::string> title_words(const Axes& axes) {
  std::vector<std::string> words;
  for (const Axis* axis : axes_in_order()) {
    if (!axis->is_in_titles() || axis->name() == "workload") continue;
    const std::string value = axis_text(*axis, axes);
    const std::string word =
        is_named(*axis, axes) && !value.empty() ? spelt(axis->title, *axis, value) : std::string();
    // A part of the id without a separator belongs to the previous word: "harness w4".
    if (!axis->id.starts_with('/'))
      words.back() += word.empty() ? "" : " " + word;
    else
      words.push_back(word);
  }
  return words;
}

std::string mode_words(const Axes& axes) {
  std::string words = axes.mode;
  for (const Axis* axis : axes_in_order()) {
    if (axis->part != TitlePart::contestant || !axis->matters_to(axes)) continue;
    const std::string value = axis_text(*axis, axes);
    if (value != axis->option.default_value) words += " " + spelt(axis->title, *axis, value);
  }
  return words;
}

std::string axis_options(const Axes& axes) {
  std::string line;
  const auto add = [&](const Axis& axis) {
    line += fmt::format(" --{}", axis.name());
    const std::string value = axis_text(axis, axes);
    if (axis.option.type != OptionType::flag)
      line += " " + shell_word(value);
    else if (value != "true")
      line += "=false";
  };
  const Rows order(axes);
  for (const Axis* axis : order)
    if (axis->identity == Identity::always && axis->applies_to(axes.kind())) add(*axis);
  // Axes with their own field come last, as in older reports.
  for (const bool field : {false, true})
    for (const Axis* axis : order)
      if (axis->identity == Identity::if_set && axis->has_field() == field && is_named(*axis, axes))
        add(*axis);
  return line;
}

}  // namespace assay
