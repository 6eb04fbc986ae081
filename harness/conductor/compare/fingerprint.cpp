#include "harness/conductor/compare/fingerprint.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/io/sha256.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

}  // namespace

Json field_at(const Json& document, const char* pointer) {
  const Json::json_pointer path(pointer);
  return document.contains(path) ? document.at(path) : Json(nullptr);
}

namespace {

Json gpu_models(const Json& environment) {
  Json models = Json::array();
  if (const Json gpus = field_at(environment, "/gpus"); gpus.is_array())
    for (const Json& gpu : gpus) models.push_back(field_at(gpu, "/model"));
  return models;
}

}  // namespace

std::optional<std::string> machine_fingerprint(const Json& environment) {
  const Json model = field_at(environment, "/cpu/model"), allowed = field_at(environment, "/cpu/allowed");
  if (!model.is_string() || !allowed.is_number()) return std::nullopt;
  const Json key{model, field_at(environment, "/cpu/architecture"), allowed,
                 field_at(environment, "/control_group/cpu_quota"), gpu_models(environment)};
  return sha256(key.dump(-1, ' ', true, Json::error_handler_t::replace)).substr(0, 12);
}

std::string machine_text(const Json& environment) {
  const Json model = field_at(environment, "/cpu/model"), allowed = field_at(environment, "/cpu/allowed");
  std::string text = fmt::format("{} logical CPUs of {}", allowed.is_number() ? allowed.dump() : "some",
                                 model.is_string() ? model.get<std::string>() : "a processor not known");
  for (const Json& gpu : gpu_models(environment))
    if (gpu.is_string()) text += ", " + gpu.get<std::string>();
  return text;
}

}  // namespace assay
