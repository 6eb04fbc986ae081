#include "workloads/network_file.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

constexpr JsonLimits network_limits{.bytes = std::size_t{64} << 20, .depth = 6};
constexpr std::size_t max_nodes = 100'000, max_tensors = 100'000, max_name_bytes = 200;
constexpr std::size_t max_description_bytes = 400;
constexpr double max_tensor_elements = 1e10;
constexpr std::size_t digest_digits = 8;

[[noreturn]] void fail(const NetworkFile& file, const std::string& at, const std::string& what) {
  throw JsonError(fmt::format("{}/{}: {}", file.where, at, what));
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// Names of the input, of tensors and of nodes are one set.
class NetworkNames {
 public:
  explicit NetworkNames(const NetworkFile& file) : file_(file) {}

  void add(const std::string& name, const std::string& at) {
    if (name.empty() || name.size() > max_name_bytes || has_control(name))
      fail(file_, at, fmt::format("a name has 1 to {} bytes and no control characters", max_name_bytes));
    if (!names_.insert(name).second)
      fail(file_, at, fmt::format("the name '{}' is taken", one_line(name, 80)));
  }

 private:
  const NetworkFile& file_;
  std::set<std::string_view> names_;
};

void check_extents(const NetworkFile& file, const std::string& at, const Shape& shape) {
  try {
    check_shape(shape);
  } catch (const GraphError& error) {
    fail(file, at, error.what());
  }
  if (static_cast<double>(element_count(shape)) > max_tensor_elements)
    fail(file, at, fmt::format("{} has more than {:.0e} elements", to_string(shape), max_tensor_elements));
}

void check_input(const NetworkFile& file) {
  const NetworkInput& input = file.input;
  check_extents(file, "input/shape", input.shape.shape);
  const bool tokens = input.dtype == "i32";
  if (tokens && !input.below) fail(file, "input", "'below' is missing: i32 are tokens below a number");
  if (!tokens && input.below) fail(file, "input/below", "only an input of i32 has it");
}

void check_file(const NetworkFile& file) {
  if (file.description &&
      (file.description->size() > max_description_bytes || has_control(*file.description)))
    fail(
        file, "description",
        fmt::format("is not one line of at most {} bytes without control characters", max_description_bytes));
  if (file.nodes.empty()) fail(file, "nodes", "there is none");
  if (file.nodes.size() > max_nodes)
    fail(file, "nodes", fmt::format("there are {}, more than {}", file.nodes.size(), max_nodes));
  if (file.tensors.size() > max_tensors)
    fail(file, "tensors", fmt::format("there are {}, more than {}", file.tensors.size(), max_tensors));
  check_input(file);
  NetworkNames names(file);
  names.add(file.input.name, "input/name");
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    names.add(file.tensors[i].name, fmt::format("tensors/{}/name", i));
    check_extents(file, fmt::format("tensors/{}/shape", i), file.tensors[i].shape);
  }
  for (std::size_t i = 0; i < file.nodes.size(); ++i)
    names.add(file.nodes[i].name, fmt::format("nodes/{}/name", i));
}

// Two files that differ only in blanks, the order of keys or the description are the same network.
std::string digest_of(Json json) {
  json.erase("description");
  return sha256(json.dump()).substr(0, digest_digits);
}

}  // namespace

Json encode(const SampleShape& shape) {
  Json json = Json::array({"N"});
  for (const std::int64_t extent : shape.shape) json.push_back(extent);
  return json;
}

Json schema_of(Of<SampleShape>) { return {{"type", "array"}, {"items", Json::object()}}; }

void decode_with(const Decoder& decoder, const Json& json, const JsonPlace& place, SampleShape& out) {
  if (!json.is_array() || json.empty() || json[0] != "N")
    return decoder.fail(place, "should be a list that begins with \"N\", the batch");
  out.shape.clear();
  for (std::size_t i = 1; i < json.size(); ++i)
    decoder.read(json[i], JsonPlace(place, i), out.shape.emplace_back());
}

Json encode(const NetworkAttribute& attribute) {
  return std::visit([](const auto& value) { return Json(value); }, attribute.value);
}

Json schema_of(Of<NetworkAttribute>) { return Json::object(); }

void decode_with(const Decoder& decoder, const Json& json, const JsonPlace& place, NetworkAttribute& out) {
  const auto as = [&]<typename T>(T) { decoder.read(json, place, out.value.emplace<T>()); };
  if (json.is_boolean()) return as(false);
  if (json.is_number_integer()) return as(std::int64_t{});
  if (json.is_number()) return as(0.0);
  if (json.is_string()) return as(std::string());
  if (json.is_array()) return as(std::vector<std::int64_t>());
  decoder.fail(place, "should be true or false, a number, text or a list of integers");
}

NetworkFile network_file_of(const Json& json, std::string_view where) {
  auto file = decoded<NetworkFile>(
      json, where,
      {.reject_unknown = true, .allow_extensions = false, .older_forms = false, .not_finite = false});
  file.where = where;
  check_file(file);
  file.digest = digest_of(json);
  return file;
}

NetworkFile read_network_file(const std::filesystem::path& file) {
  return network_file_of(read_strict_json(file, network_limits), file.string());
}

}  // namespace assay
