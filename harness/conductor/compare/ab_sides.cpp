#include "harness/conductor/compare/ab_sides.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "harness/core/text.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr const char* interpreter_key = "interpreter";

void set_on_side(AbSide& side, const std::string& key, const std::string& value, const std::string& where) {
  if (key == "build") {
    side.build = value;
    return;
  }
  const Option* option = find_option(key);
  if (!option || (option->scope == OptionScope::run && key != interpreter_key)) {
    std::vector<std::string> known{"build", interpreter_key};
    for (const Option& one : options())
      if (one.scope != OptionScope::run) known.emplace_back(one.name);
    throw ConfigError(fmt::format("{}: the sides must not differ in '{}'{}", where, key,
                                  option ? ": it applies to the whole run" : suggestion(key, known)));
  }
  set_option(side.values, *option, value, where);
}

// The id without the axes in which the sides may differ.
std::string key_of(const Axes& axes, const std::set<std::string>& free) {
  return cell_id_without(axes, [&](const Axis& axis) {
    if (free.contains(std::string(axis.name())) || free.contains(std::string(axis.depends_on))) return true;
    const std::vector<std::string> settings = split(axis.derived, ',');
    return std::ranges::any_of(settings, [&](const std::string& name) { return free.contains(name); });
  });
}

std::map<std::string, std::size_t> keys_of(const std::vector<Cell>& cells, const std::set<std::string>& free,
                                           const char* side) {
  std::map<std::string, std::size_t> keys;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto [there, fresh] = keys.emplace(key_of(cells[i].axes, free), i);
    if (!fresh)
      throw ConfigError(fmt::format(
          "[ab] {} and {} of --{} differ only in axes that the sides set; choose one with --filter or in "
          "--{}",
          cells[there->second].id, cells[i].id, side, side));
  }
  return keys;
}

std::string joint_id(const std::string& a, const std::string& b) {
  if (a == b) return a;
  const auto left = split(a, '/'), right = split(b, '/');
  if (left.size() != right.size()) return fmt::format("{{{}|{}}}", a, b);
  std::string id;
  for (std::size_t i = 0; i < left.size(); ++i)
    id += (i == 0 ? "" : "/") + (left[i] == right[i] ? left[i] : fmt::format("{{{}|{}}}", left[i], right[i]));
  return id;
}

}  // namespace

AbSide parse_side(const std::string& text, const std::string& where) {
  AbSide side;
  side.text = text;
  if (text.empty()) return side;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == part.size())
      throw ConfigError(
          fmt::format("{}: '{}' must be NAME=VALUE, such as backend=onednn or build=DIR", where, part));
    set_on_side(side, part.substr(0, equals), part.substr(equals + 1), where);
  }
  return side;
}

std::vector<fs::path> backends_of_build(const fs::path& build) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const char* below : {"backends", "libexec/assay/backends"})
    if (fs::is_directory(build / below, ignored)) found.push_back(build / below);
  if (found.empty())
    throw ConfigError(fmt::format(
        "build={}: no backends found; name a build folder, such as build/release, or the prefix of an "
        "installation",
        build.string()));
  return found;
}

std::vector<CellPair> pair_cells(const std::vector<Cell>& a, const std::vector<Cell>& b,
                                 const std::set<std::string>& free) {
  const auto left = keys_of(a, free, "a"), right = keys_of(b, free, "b");
  const auto reject = [](const Cell& cell, const char* side, const char* other) {
    throw ConfigError(fmt::format(
        "[ab] {} of --{} has no partner in --{}: the sides may differ only in the values of --a and "
        "--b, and must have the same number of cells",
        cell.id, side, other));
  };
  std::vector<CellPair> pairs;
  for (const auto& [key, index] : left) {
    const auto partner = right.find(key);
    if (partner == right.end()) reject(a[index], "a", "b");
    pairs.push_back({index, partner->second, joint_id(a[index].id, b[partner->second].id)});
  }
  for (const auto& [key, index] : right)
    if (!left.contains(key)) reject(b[index], "b", "a");
  std::sort(pairs.begin(), pairs.end(),
            [](const CellPair& one, const CellPair& other) { return one.a < other.a; });
  return pairs;
}

}  // namespace assay
