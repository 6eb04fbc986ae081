#include "harness/core/json/strict_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/io/file.hpp"
#include "harness/core/io/gzip.hpp"
#include "harness/core/json/escape.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

// Builds the document and checks depth and keys, which the library's own parser does not check.
class Builder : public nlohmann::json_sax<Json> {
 public:
  // Borrows the text.
  Builder(std::string_view text, std::string_view where, JsonLimits limits)
      : text_(text), where_(where), limits_(limits) {}

  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    const bool is_integer = text.find_first_of(".eE") == text.npos;  // that 64 bits do not hold
    if (is_integer || !std::isfinite(value))
      fail(fmt::format("the number {} is out of range", text.substr(0, 40)));
    return put(value);
  }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    Level& level = levels_.back();
    level.key = nullptr;
    const auto [member, is_new] = level.json->get_ref<Json::object_t&>().try_emplace(std::move(value));
    if (!is_new) fail(fmt::format("duplicate key \"{}\"", member->first.substr(0, 80)));
    level.key = &member->first;
    level.value = &member->second;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    const std::string_view text = error.what();
    const auto said = text.find("; ");  // strip the library's error code and position
    // The parser counts the bytes that it has read, the one at fault included.
    const std::string_view before = text_.substr(0, position > 0 ? position - 1 : 0);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    fail(fmt::format("not valid JSON at line {}, column {} (byte {}), near \"{}\": {}", line, column,
                     position, excerpt(token), excerpt(said == text.npos ? text : text.substr(said + 2))));
  }

 private:
  struct Level {
    Json* json;
    const std::string* key = nullptr;  // in an object: the current key, and its value
    Json* value = nullptr;
  };

  // Parents own their children and arrays grow. So a child's address is taken when the child is opened and
  // used only until it is closed: no sibling can move it in between.
  Json* place(Json value) {
    if (++values_ > limits_.values) fail(fmt::format("more than {} values", limits_.values));
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.json->is_array()) {
      level.json->push_back(std::move(value));
      return &level.json->back();
    }
    *level.value = std::move(value);
    return level.value;
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (levels_.size() >= limits_.depth) fail(fmt::format("nested more than {} deep", limits_.depth));
    levels_.push_back({place(std::move(value))});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  static std::string excerpt(std::string_view text) {
    return printable(text, 200) + (text.size() > 200 ? "..." : "");
  }
  [[noreturn]] void fail(const std::string& what) const {
    std::string at;
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      const Level& level = levels_[i];
      const bool inside = i + 1 < levels_.size();  // the list's last item has the fault
      const std::string step = level.json->is_array() ? std::to_string(level.json->size() - (inside ? 1 : 0))
                               : level.key            ? level.key->substr(0, 80)
                                                      : "";
      if (!step.empty()) at += (at.empty() ? "" : "/") + step;
    }
    throw JsonError(fmt::format("{}: {}{}", where_, at.empty() ? "" : "at " + at + ": ", what));
  }

  std::string_view text_;
  std::string where_;
  JsonLimits limits_;
  Json root_;
  std::size_t values_ = 0;
  std::vector<Level> levels_;
};

const char* name_of(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

void make_finite(Json& json) {
  if (json.is_array()) {
    for (Json& item : json) {
      if (item.is_number_float() && !std::isfinite(item.get<double>())) item = nullptr;
      if (item.is_structured()) make_finite(item);
    }
  } else if (json.is_object()) {
    Json notes = Json::object();
    for (auto& [key, item] : json.items()) {
      if (item.is_number_float() && !std::isfinite(item.get<double>())) {
        notes[key] = name_of(item.get<double>());
        item = nullptr;
      }
      if (item.is_structured()) make_finite(item);
    }
    if (!notes.empty()) json["not_finite"].update(notes);
  }
}

constexpr std::size_t line_length = 110;

// Order of keys: those that a reader looks for first, then the plain fields, then lists and objects, and the
// longest last.
int rank(const std::string& key, const Json& value) {
  static constexpr std::array first{"schema", "id",    "name",  "status", "reason",
                                    "kind",   "round", "value", "unit"};
  for (std::size_t i = 0; i < first.size(); ++i)
    if (key == first[i]) return static_cast<int>(i);
  if (key == "cells" || key == "forks") return 102;
  return value.is_structured() ? 101 : 100;
}

std::string scalar(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool is_number_list(const Json& json) {
  return json.is_array() &&
         std::all_of(json.begin(), json.end(), [](const Json& item) { return item.is_number(); });
}

// Whether the value fits into `room` characters on one line; reduces `room` by its length.
bool fits(const Json& json, std::size_t& room) {
  const auto take = [&](std::size_t length) {
    if (length > room) return false;
    room -= length;
    return true;
  };
  if (!json.is_structured()) return take(scalar(json).size());
  if (json.size() > room) return false;
  for (auto item = json.begin(); item != json.end(); ++item)
    if (!take(json.is_object() ? item.key().size() + 6 : 2) || !fits(*item, room)) return false;
  return take(2);
}

void append(std::string& out, const Json& json, std::size_t depth) {
  if (!json.is_structured()) {
    out += scalar(json);
    return;
  }
  std::vector<std::pair<std::string, const Json*>> items;
  bool nested = false;
  for (auto item = json.begin(); item != json.end(); ++item) {
    nested |= item->is_structured() && !item->empty();
    items.emplace_back(json.is_object() ? item.key() : std::string(), &*item);
  }
  if (json.is_object())
    std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
      return rank(a.first, *a.second) < rank(b.first, *b.second);
    });
  if (std::size_t room = line_length; nested && fits(json, room)) nested = false;
  const std::string line = nested ? "\n" + std::string(depth + 1, ' ') : "";
  const bool numbers = is_number_list(json);
  std::string separator = line;
  out += json.is_array() ? '[' : '{';
  for (const auto& [key, value] : items) {
    out += separator;
    if (json.is_object()) out += scalar(key) + ": ";
    append(out, *value, depth + 1);
    separator = nested ? "," + line : numbers ? "," : ", ";
  }
  if (nested) out += '\n' + std::string(depth, ' ');
  out += json.is_array() ? ']' : '}';
}

}  // namespace

Json parse_strict_json(std::string_view text, std::string_view where, JsonLimits limits) {
  if (text.size() > limits.bytes)
    throw JsonError(fmt::format("{}: {} bytes, above the limit of {}", where, text.size(), limits.bytes));
  if (text.starts_with(utf8_mark)) text.remove_prefix(utf8_mark.size());
  if (const std::string_view encoding = wide_encoding(text); !encoding.empty())
    throw JsonError(
        fmt::format("{}: is a text in {}, and JSON is UTF-8; save it as UTF-8 (in PowerShell 5, > writes "
                    "UTF-16)",
                    where, encoding));
  if (text.starts_with("version https://git-lfs."))
    throw JsonError(fmt::format("{}: {}", where, kind_of_content(std::as_bytes(std::span(text)))));
  // The parser takes it for the end of the text.
  if (const std::size_t at = text.find('\0'); at != text.npos)
    throw JsonError(fmt::format("{}: not valid JSON: byte {} is 0", where, at));
  Builder builder(text, where, limits);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

namespace {

std::string file_bytes(const std::filesystem::path& file, JsonLimits limits) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) {
    const bool is_absent = !error || error == std::errc::no_such_file_or_directory;
    throw JsonError(fmt::format("{}: {}", file.string(), is_absent ? "no such file" : error.message()));
  }
  if (std::filesystem::is_directory(status))
    throw JsonError(fmt::format("{}: is a folder, not a file", file.string()));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw JsonError(fmt::format("{}: cannot be read (permissions?)", file.string()));
  const auto too_large = [&] {
    return JsonError(fmt::format("{}: larger than the limit of {} bytes", file.string(), limits.bytes));
  };
  std::string text;
  if (std::filesystem::is_regular_file(status)) {
    const auto size = std::filesystem::file_size(file, error);
    if (!error && size > limits.bytes) throw too_large();
    if (!error) text.reserve(size);
  }
  // Do not trust the size from the file system: a pipe has none, and a file may grow.
  std::string chunk(std::size_t{1} << 20, '\0');
  while (stream.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || stream.gcount() > 0) {
    text.append(chunk, 0, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > limits.bytes) throw too_large();
  }
  if (stream.bad()) throw JsonError(fmt::format("{}: cannot be read to its end", file.string()));
  return text;
}

}  // namespace

std::string read_json_text(const std::filesystem::path& file, JsonLimits limits) {
  std::string text = file_bytes(file, limits);
  const auto bytes = std::as_bytes(std::span(text));
  if (!is_gzip(bytes)) return text;
  try {
    const std::vector<std::byte> content = inflated(bytes, file, limits.bytes);
    return {reinterpret_cast<const char*>(content.data()), content.size()};
  } catch (const IoError& error) {
    throw JsonError(error.what());
  }
}

Json read_strict_json(const std::filesystem::path& file, JsonLimits limits) {
  return parse_strict_json(read_json_text(file, limits), file.string(), limits);
}

std::string strict_json_text(Json json) {
  make_finite(json);
  std::string out;
  append(out, json, 0);
  return with_escaped_controls(std::move(out)) + '\n';
}

std::string with_escaped_controls(std::string json) {
  const auto is_c1 = [&](std::size_t i) {
    const auto next = i + 1 < json.size() ? static_cast<unsigned char>(json[i + 1]) : 0U;
    return json[i] == '\xc2' && next >= 0x80 && next <= 0x9f;
  };
  std::string escaped;
  std::size_t kept = 0;  // everything before it is in `escaped`
  for (std::size_t i = 0; i < json.size(); ++i) {
    const bool c1 = is_c1(i);
    if (!c1 && json[i] != '\x7f') continue;
    escaped.append(json, kept, i - kept);
    escaped += fmt::format("\\u{:04x}", static_cast<unsigned char>(json[c1 ? i + 1 : i]));
    kept = i + (c1 ? 2 : 1);
  }
  if (kept == 0) return json;
  return escaped.append(json, kept);
}

}  // namespace assay
