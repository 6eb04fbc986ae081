#include "harness/worker/request.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/core/cell_file.hpp"

namespace assay {
namespace {

template <typename T>
T field(const nlohmann::json& json, const char* name, T fallback) {
  const auto place = json.find(name);
  return place == json.end() || place->is_null() ? fallback : place->get<T>();
}

Request parse(const nlohmann::json& json) {
  const auto version = json.at("protocol").get<int>();
  if (version != 1) {
    throw CellError(fmt::format("protocol {} is not known here: this worker speaks 1", version));
  }
  Request request;
  CompileOptions& options = request.options;
  options.task = json.at("task").get<std::string>();
  options.mode = json.at("mode").get<std::string>();
  options.device = field<std::string>(json, "device", options.device);
  options.layout = field<std::string>(json, "layout", options.layout);
  options.precision = parse_precision(json.at("precision").get<std::string>());
  options.threads = field(json, "threads", options.threads);
  options.seed = field(json, "seed", options.seed);
  options.deterministic = field(json, "deterministic", options.deterministic);
  options.memory_fraction = field(json, "memory_fraction", options.memory_fraction);
  options.memory_cap = field(json, "memory_cap_bytes", options.memory_cap);
  options.profile = field(json, "profile", options.profile);
  request.batch = json.at("batch").get<std::int64_t>();
  const nlohmann::json clock = field(json, "clock", nlohmann::json::object());
  request.steps = field<std::string>(clock, "kind", "") == "steps";
  const nlohmann::json oracle = field(json, "oracle", nlohmann::json());
  if (oracle.is_object()) {
    OracleOptions wanted;
    wanted.emulated = parse_precision(oracle.at("precision").get<std::string>());
    wanted.perturbations = field(oracle, "perturbations", wanted.perturbations);
    wanted.seed = field(oracle, "seed", wanted.seed);
    request.oracle = wanted;
  }
  return request;
}

}  // namespace

Request read_request(const std::filesystem::path& file) { return read_cell_json("worker", file, parse); }

}  // namespace assay
