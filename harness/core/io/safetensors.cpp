#include "harness/core/io/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/numerics.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t max_safetensors_header = std::uint64_t{1} << 24;  // about 100,000 tensors

struct Name {
  DType dtype;
  std::string_view text;
};
constexpr Name names[] = {
    {DType::f64, "F64"}, {DType::f32, "F32"}, {DType::bf16, "BF16"}, {DType::i32, "I32"}, {DType::u8, "U8"}};

struct Entry {
  std::string name;
  TensorType type;
  bool is_f16 = false;  // then the type is bf16, which is as long
  std::uint64_t begin = 0, end = 0;
};

// JSON does not define which of two equal keys wins; here both are rejected.
Json parse_strictly(std::string_view text, const std::filesystem::path& path) {
  std::vector<std::set<std::string>> keys;
  std::string repeated;
  constexpr int max_depth = 2;  // the lists of a tensor, within its object, within the header
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth > max_depth) throw IoError("safetensors", path, "the header is nested too deeply");
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    throw IoError("safetensors", path, fmt::format("the header is not JSON: {}", error.what()));
  }
  if (!repeated.empty())
    throw IoError("safetensors", path, fmt::format("'{}' is in the header twice", repeated));
  if (!json.is_object()) throw IoError("safetensors", path, "the header is not a JSON object");
  return json;
}

std::uint64_t unsigned_number(const Json& value, const IoError& error) {
  if (!value.is_number_unsigned()) throw error;
  return value.get<std::uint64_t>();
}

enum class Types { known, any, weights };  // any: the type is not read; weights: known or F16

// The place of a tensor in the data, and its type.
Entry parse_entry(const std::string& name, const Json& json, std::uint64_t size,
                  const std::filesystem::path& path, Types types) {
  const auto fail = [&](std::string_view what) {
    return IoError("safetensors", path, fmt::format("tensor '{}': {}", name, what));
  };
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    throw fail("does not have exactly dtype, shape and data_offsets");
  Entry entry;
  entry.name = name;
  const Json& offsets = json.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) throw fail("data_offsets is not a pair");
  entry.begin = unsigned_number(offsets[0], fail("data_offsets are not sizes"));
  entry.end = unsigned_number(offsets[1], fail("data_offsets are not sizes"));
  if (entry.begin > entry.end || entry.end > size)
    throw fail(fmt::format("data_offsets [{}, {}] are outside of the {} bytes of data", entry.begin,
                           entry.end, size));
  if (types == Types::any) return entry;
  const Json& dtype = json.at("dtype");
  const auto* known =
      std::find_if(std::begin(names), std::end(names), [&](const Name& n) { return dtype == n.text; });
  entry.is_f16 = types == Types::weights && dtype == "F16";
  if (known == std::end(names) && !entry.is_f16)
    throw fail(types == Types::weights
                   ? fmt::format("dtype {} is not one of F32, BF16, F16; save the weights as one of these",
                                 dtype.dump())
                   : fmt::format("dtype {} is not one of F64, F32, BF16, I32, U8", dtype.dump()));
  entry.type.dtype = entry.is_f16 ? DType::bf16 : known->dtype;
  const Json& shape = json.at("shape");
  if (!shape.is_array() || shape.size() > 16) throw fail("shape is not a list of at most 16 numbers");
  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(entry.type.dtype));
  bool empty = false;
  for (const Json& extent : shape) {
    const std::uint64_t value =
        unsigned_number(extent, fail(fmt::format("shape {} is not a list of sizes", shape.dump())));
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw fail("a dimension is too large");
    empty = empty || value == 0;
    if (value != 0 && (__builtin_mul_overflow(bytes, value, &bytes) || bytes > (std::uint64_t{1} << 62)))
      throw fail(fmt::format("shape {} is too large", shape.dump()));
    entry.type.shape.push_back(static_cast<std::int64_t>(value));
  }
  if (empty) bytes = 0;
  if (entry.end - entry.begin != bytes)
    throw fail(fmt::format("{} needs {} bytes, data_offsets give {}", to_string(entry.type), bytes,
                           entry.end - entry.begin));
  return entry;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const HostTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> seen;
  std::uint64_t offset = 0;
  for (const HostTensor& tensor : tensors) {
    if (!seen.insert(tensor.name).second || tensor.name == "__metadata__")
      throw IoError("safetensors", path, fmt::format("two tensors have the name '{}'", tensor.name));
    if (static_cast<std::uint64_t>(tensor.type.bytes()) != tensor.bytes.size())
      throw IoError("safetensors", path,
                    fmt::format("tensor '{}': {} needs {} bytes, got {}", tensor.name, to_string(tensor.type),
                                tensor.type.bytes(), tensor.bytes.size()));
    const auto* known = std::find_if(std::begin(names), std::end(names),
                                     [&](const Name& n) { return n.dtype == tensor.type.dtype; });
    header[tensor.name] = {{"dtype", known->text},
                           {"shape", tensor.type.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& error) {
    throw IoError("safetensors", path, fmt::format("a name is not UTF-8: {}", error.what()));
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const HostTensor& tensor : tensors) file.write(tensor.bytes);
  file.commit(false);  // after a crash of the machine, cell folders are made again
}

namespace {

struct Layout {
  Json header;
  std::span<const std::byte> data;
  std::vector<Entry> entries;  // in the order of their bytes
};

Layout parse_layout(std::span<const std::byte> bytes, const std::filesystem::path& path, Types types) {
  if (bytes.size() < 8)
    throw IoError("safetensors", path,
                  fmt::format("is truncated: it has {}, too few for a header", plural(bytes.size(), "byte")));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  if (length > max_safetensors_header || length > bytes.size() - 8) {
    const std::string kind = kind_of_content(bytes);
    throw IoError("safetensors", path,
                  kind.empty()
                      ? fmt::format("is truncated or is not a safetensors file: a header of {} bytes in a "
                                    "file of {}",
                                    length, bytes.size())
                      : fmt::format("is not a safetensors file: {}", kind));
  }
  Layout layout;
  layout.data = bytes.subspan(8 + static_cast<std::size_t>(length));
  layout.header = parse_strictly(
      {reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<std::size_t>(length)}, path);
  for (const auto& [name, json] : layout.header.items()) {
    if (name != "__metadata__") {
      layout.entries.push_back(parse_entry(name, json, layout.data.size(), path, types));
    } else if (!json.is_object() ||
               !std::all_of(json.begin(), json.end(), [](const Json& v) { return v.is_string(); })) {
      throw IoError("safetensors", path, "__metadata__ is not an object of strings");
    }
  }
  std::sort(layout.entries.begin(), layout.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t expected = 0;
  for (const Entry& entry : layout.entries) {
    if (entry.begin != expected)
      throw IoError(
          "safetensors", path,
          fmt::format("tensor '{}' begins at byte {} of the data instead of {}: tensors {}", entry.name,
                      entry.begin, expected, entry.begin < expected ? "overlap" : "leave a hole"));
    expected = entry.end;
  }
  if (expected != layout.data.size())
    throw IoError("safetensors", path,
                  fmt::format("has {} after the last tensor", plural(layout.data.size() - expected, "byte")));
  return layout;
}

std::span<const std::byte> bytes_of(const Entry& entry, std::span<const std::byte> data) {
  return data.subspan(static_cast<std::size_t>(entry.begin),
                      static_cast<std::size_t>(entry.end - entry.begin));
}

std::vector<HostTensor> parse_safetensors(std::span<const std::byte> bytes, const std::filesystem::path& path,
                                          SafetensorsMetadata* metadata) {
  Layout layout = parse_layout(bytes, path, Types::known);
  if (const auto found = layout.header.find("__metadata__");
      metadata != nullptr && found != layout.header.end())
    *metadata = found->get<SafetensorsMetadata>();
  std::vector<HostTensor> tensors;
  for (Entry& entry : layout.entries) {
    const auto part = bytes_of(entry, layout.data);
    tensors.push_back({std::move(entry.name), std::move(entry.type), {part.begin(), part.end()}});
  }
  return tensors;
}

}  // namespace

std::vector<HostTensor> read_safetensors(const std::filesystem::path& path, SafetensorsMetadata* metadata) {
  return parse_safetensors(MappedFile(path).bytes(), path, metadata);
}

std::vector<HostTensor> read_foreign_safetensors(const std::filesystem::path& path, std::uint64_t limit) {
  return parse_safetensors(read_foreign_file(path, limit), path, nullptr);
}

WeightsFile::WeightsFile(const std::filesystem::path& path) : path_(path), file_(path) {
  const Layout layout = parse_layout(file_.bytes(), path, Types::any);
  data_ = layout.data;
  for (const Entry& entry : layout.entries) entries_[entry.name] = layout.header.at(entry.name).dump();
}

bool WeightsFile::has(const std::string& name) const { return entries_.contains(name); }

std::string WeightsFile::type_text(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw IoError("safetensors", path_, fmt::format("has no tensor '{}'", name));
  const Json json = Json::parse(found->second);
  const Json& dtype = json.at("dtype");
  std::string shape = json.at("shape").dump();
  if (shape.starts_with('[') && shape.ends_with(']')) shape = "(" + shape.substr(1, shape.size() - 2) + ")";
  for (std::size_t at = 0; (at = shape.find(',', at)) != std::string::npos; at += 2)
    shape.insert(at + 1, " ");
  return fmt::format("{} {}", dtype.is_string() ? dtype.get<std::string>() : dtype.dump(), shape);
}

HostTensor WeightsFile::read(const std::string& name, const Shape& shape) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw IoError("safetensors", path_, fmt::format("has no tensor '{}'", name));
  const Entry entry = parse_entry(name, Json::parse(found->second), data_.size(), path_, Types::weights);
  const auto fail = [&](const std::string& what) {
    return IoError("safetensors", path_, fmt::format("tensor '{}' {}", name, what));
  };
  if (entry.type.dtype != DType::f32 && entry.type.dtype != DType::bf16)
    throw fail(
        fmt::format("is {}; weights must be F32, BF16 or F16: save them as one of these", type_text(name)));
  if (entry.type.shape != shape)
    throw fail(fmt::format("is {}, but its shape must be {}", type_text(name), to_string(shape)));
  const std::span<const std::byte> bytes = bytes_of(entry, data_);
  HostTensor tensor = HostTensor::zeros(name, {DType::f32, shape});
  if (entry.type.dtype == DType::f32) {
    std::ranges::copy(bytes, tensor.bytes.begin());
  } else {
    const std::span<float> values = tensor.as<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes.data() + 2 * i, sizeof half);
      values[i] = entry.is_f16 ? from_f16(half) : from_bf16(half);
    }
  }
  const std::span<const float> values = std::as_const(tensor).as<float>();
  if (const std::size_t bad = find_unusable(values); bad < values.size())
    throw fail(fmt::format("has at element {} the value {}", bad, unusable_text(values[bad])));
  return tensor;
}

bool is_weights_index(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::uint64_t length = 0;
  if (text.size() < sizeof length) return false;
  std::memcpy(&length, text.data(), sizeof length);
  if (length <= text.size()) return false;  // it may begin with '{' by chance
  if (text.starts_with(utf8_mark)) text.remove_prefix(utf8_mark.size());
  return text.starts_with('{') || text.starts_with('[') || !wide_encoding(text).empty();
}

std::map<std::string, std::filesystem::path, std::less<>> read_weights_index(
    const std::filesystem::path& path) {
  Json index;
  try {
    index = read_strict_json(path, {.bytes = max_safetensors_header});
  } catch (const JsonError& error) {
    throw IoError("safetensors", path, fmt::format("is not the index of a model: {}", error.what()));
  }
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object())
    throw IoError("safetensors", path,
                  "is JSON, but not the index of a model in several files: it has no object \"weight_map\"");
  if (map->empty())
    throw IoError("safetensors", path, "is the index of a model, but its weight_map names no tensor");
  std::map<std::string, std::filesystem::path, std::less<>> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name != std::filesystem::path(name).filename() || name == "." || name == "..")
      throw IoError("safetensors", path,
                    fmt::format("weight_map/{}: {} is not the name of a file next to the index",
                                printable(tensor, 80), printable(file.dump(), 80)));
    files[tensor] = path.parent_path() / name;
  }
  return files;
}

}  // namespace assay
