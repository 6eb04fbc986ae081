#include "harness/batch/manifest.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

constexpr std::string_view schema = "assay-data/1";
constexpr std::int64_t most_elements = std::int64_t{1} << 31;  // of a sample
constexpr std::int64_t most_classes = std::int64_t{1} << 24;
constexpr std::int64_t longest_side = 1 << 14;
constexpr std::int64_t most_tokens = std::numeric_limits<std::int32_t>::max();

std::filesystem::path manifest_path(const std::filesystem::path& cell_folder) {
  return cell_folder / "data" / "manifest.json";
}

// Reads fields of one object and says which one was wrong.
class ManifestReader {
 public:
  ManifestReader(const Json& json, const std::filesystem::path& path, std::string where)
      : json_(json), path_(path), where_(std::move(where)) {
    if (!json.is_object()) fail("", "is no object");
  }

  [[noreturn]] void fail(std::string_view field, std::string_view what) const {
    throw IoError("manifest", path_, fmt::format("'{}{}' {}", where_, field, what));
  }
  const Json& at(const char* field) const {
    const auto found = json_.find(field);
    if (found == json_.end()) fail(field, "is missing");
    return *found;
  }
  std::string text(const char* field) const {
    const Json& value = at(field);
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) fail(field, "is no text");
    return value.get<std::string>();
  }
  std::int64_t count(const char* field, std::int64_t least, std::int64_t most) const {
    return count(at(field), field, least, most);
  }
  std::int64_t count(const Json& value, const char* field, std::int64_t least, std::int64_t most) const {
    const bool whole = value.is_number_unsigned()
                           ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                           : value.is_number_integer();
    if (!whole || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
      fail(field, fmt::format("is {} and no whole number from {} to {}", value.dump(), least, most));
    return value.get<std::int64_t>();
  }
  std::vector<float> floats(const char* field, std::size_t channels) const {
    const Json& value = at(field);
    std::vector<float> values;
    if (value.is_array())
      for (const Json& item : value) {
        if (!item.is_number() || !std::isfinite(item.get<float>()))
          fail(field, "holds what is no finite number");
        values.push_back(item.get<float>());
      }
    if (values.size() != 1 && values.size() != channels)
      fail(field, fmt::format("is no list of 1 or {} numbers", channels));
    return values;
  }

 private:
  const Json& json_;
  const std::filesystem::path& path_;
  std::string where_;
};

}  // namespace

Manifest read_manifest(const std::filesystem::path& cell_folder) {
  const std::filesystem::path path = manifest_path(cell_folder);
  const std::string text = read_text(path, 1 << 20);
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw IoError("manifest", path, "is no JSON");
  const ManifestReader reader(json, path, "");
  if (reader.text("schema") != schema)
    reader.fail("schema", fmt::format("is '{}', wanted '{}'", reader.text("schema"), schema));

  Manifest manifest;
  manifest.name = reader.text("name");
  manifest.kind = reader.text("kind");
  const bool encoded = manifest.kind == "encoded";
  if (manifest.kind != "array" && !encoded)
    reader.fail("kind", fmt::format("is '{}'; 'array' and 'encoded' are read", manifest.kind));
  const Json& shape = reader.at("sample_shape");
  if (!shape.is_array() || shape.empty() || shape.size() > 8)
    reader.fail("sample_shape", "is no list of 1 to 8 sizes");
  std::int64_t elements = 1;
  for (const Json& extent : shape) {
    manifest.sample_shape.push_back(reader.count(extent, "sample_shape", 1, most_elements));
    elements *= manifest.sample_shape.back();
    if (elements > most_elements)
      reader.fail("sample_shape", fmt::format("has more than {} elements", most_elements));
  }
  manifest.classes = reader.count("classes", 1, most_classes);
  if (encoded) {
    manifest.resize = reader.count("resize", 1, longest_side);
    const Shape& sample = manifest.sample_shape;
    if (sample.size() != 3 || sample[0] != 3 || sample[1] > longest_side || sample[2] > longest_side)
      reader.fail("sample_shape", fmt::format("is no (3, H, W) of up to {} pixels a side", longest_side));
  }
  if (json.contains("vocabulary")) manifest.vocabulary = reader.count("vocabulary", 1, most_tokens);
  const auto channels = static_cast<std::size_t>(manifest.sample_shape.front());
  const ManifestReader normalisation(reader.at("normalisation"), path, "normalisation.");
  manifest.scale = normalisation.floats("scale", channels);
  manifest.shift = normalisation.floats("shift", channels);
  const Json& splits = reader.at("splits");
  if (!splits.is_object()) reader.fail("splits", "is no object");
  for (const auto& [name, value] : splits.items()) {
    const ManifestReader split(value, path, fmt::format("splits.{}.", name));
    manifest.splits[name] = {std::filesystem::absolute(cell_folder / split.text("inputs")),
                             std::filesystem::absolute(cell_folder / split.text("labels")),
                             split.count("first", 0, std::numeric_limits<std::int32_t>::max()),
                             split.count("count", 1, std::numeric_limits<std::int32_t>::max())};
  }
  return manifest;
}

void write_manifest(const std::filesystem::path& cell_folder, const Manifest& manifest) {
  nlohmann::ordered_json json;
  json["schema"] = schema;
  json["name"] = manifest.name;
  json["kind"] = manifest.kind;
  json["sample_shape"] = manifest.sample_shape;
  json["classes"] = manifest.classes;
  if (manifest.tokens()) json["vocabulary"] = manifest.vocabulary;
  if (manifest.kind == "encoded") json["resize"] = manifest.resize;
  json["normalisation"] = {{"scale", manifest.scale}, {"shift", manifest.shift}};
  for (const auto& [name, split] : manifest.splits)
    json["splits"][name] = {{"inputs", split.inputs.string()},
                            {"labels", split.labels.string()},
                            {"first", split.first},
                            {"count", split.count}};
  const std::filesystem::path path = manifest_path(cell_folder);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) throw IoError("manifest", path.parent_path(), "cannot be created", error.value());
  write_atomically(path, json.dump(2) + "\n", false);
}

}  // namespace assay
