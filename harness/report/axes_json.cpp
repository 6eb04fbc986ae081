#include "harness/report/axes_json.hpp"

#include <map>

#include "harness/core/json/schema.hpp"

namespace assay {
namespace {

struct AxisDoc {
  std::string_view doc;
  FieldRules rules{};
};

const std::map<std::string_view, AxisDoc>& axis_docs() {
  static const std::map<std::string_view, AxisDoc> docs{
      {"workload", {"`lenet5`.", {.min_length = 1}}},
      {"backend", {"`onednn`.", {.min_length = 1}}},
      {"device", {"`cpu`, `cuda`.", {.min_length = 1}}},
      {"mode", {"`eager`, `graph` or one of the framework's own.", {.min_length = 1}}},
      {"task", {"What a step is.", {.choices = {"train", "infer"}}}},
      {"precision", {"A policy: `fp32`, `tf32`, `bf16`, `fp64`.", {.min_length = 1}}},
      {"layout", {"`native`, or the one asked for.", {.min_length = 1}}},
      {"batch", {"Samples in a step.", {.minimum = 1}}},
      {"dataset", {"Empty where the workload has none.", {}}},
      {"loader", {"Where a step's batch comes from.", {.choices = {"resident", "harness", "native"}}}},
      {"loader_workers", {"Threads of the loader.", {.minimum = 0}}},
      {"optimizer", {"`sgd`, `rmsprop`, `adam`; empty for task `infer`.", {}}},
      {"threads", {"Budget of compute and loader together.", {.minimum = 1}}},
      {"compile_cache",
       {"Whether what a framework keeps on disk was there before.", {.choices = {"cold", "warm"}}}},
      {"deterministic", {"Whether deterministic kernels were asked for.", {}}},
      {"measure", {"`steps`, or `epochs:N`.", {.min_length = 1}}},
      {"variant",
       {"Further axes by the name of their option, where they differ from the workload's own: "
        "`{\"schedule\": \"every:10x0.9\"}`.",
        {}}},
      {"size", {"Of a single op: `4096`, `m1760n16k1760`; absent of a network.", {.min_length = 1}}},
      {"cache",
       {"Of a single op: `warm`, the same operands in every step, or `cold`, sets of them that are twice the "
        "last-level cache together.",
        {.choices = {"warm", "cold"}}}},
  };
  return docs;
}

}  // namespace

const FieldRules& axis_rules(std::string_view key) { return axis_docs().at(key).rules; }

nlohmann::json encode(const Axes& axes) {
  nlohmann::json out = nlohmann::json::object();
  for_each_axis_field(axes, [&](const auto& key, const auto& member, bool required) {
    if constexpr (requires { member.empty(); })
      if (!required && member.empty()) return;
    out[key] = member;
  });
  return out;
}

nlohmann::json schema_of(Of<Axes>) {
  SchemaMaker maker;
  nlohmann::json properties = nlohmann::json::object(), required = nlohmann::json::array();
  const Axes axes;
  for_each_axis_field(axes, [&](const auto& key, const auto& member, bool always) {
    nlohmann::json schema = maker.of<std::remove_cvref_t<decltype(member)>>();
    const AxisDoc& axis = axis_docs().at(key);
    SchemaMaker::add_rules(schema, axis.rules);
    schema["description"] = axis.doc;
    properties[key] = std::move(schema);
    if (always) required.push_back(key);
  });
  return {{"description", "What identifies the cell within the report."},
          {"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)}};
}

}  // namespace assay
