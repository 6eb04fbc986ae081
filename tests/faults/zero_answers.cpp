#include "tests/faults/zero_answers.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/protocol/exam_files.hpp"

namespace assay::faults {
namespace {

using nlohmann::json;

constexpr double loose = 1e-2, sharp = 1e-7;

json read(const char* path) {
  std::ifstream file(path);
  return json::parse(file);
}

HostTensor filled(const std::string& name, const Shape& shape, double value) {
  HostTensor tensor = HostTensor::zeros(name, {DType::f64, shape});
  for (double& element : tensor.as<double>()) element = value;
  return tensor;
}

}  // namespace

// The shapes are those of graph.json, for all batches, and for those of the run that are asked for.
std::vector<HostTensor> zero_answers() {
  const std::int64_t batches = read_exam_batches("check/batches.json").count();
  const std::filesystem::path run = "check/run.json";
  const auto slots =
      std::filesystem::exists(run) ? static_cast<std::int64_t>(read_exam_run(run).slots.size()) : -1;
  const json program = read("graph.json"), &graph = program.at("inference");
  const bool op = program.at("kind") == "op";
  std::vector<HostTensor> answers;
  for (const auto& [output, value] : graph.at("outputs").items())
    for (const json& one : graph.at("values")) {
      if (one.at("name") != value || (!op && output != "logits")) continue;
      const std::string name = op ? "result/" + output : output;
      const auto add = [&](const std::string& prefix, Shape stacked) {
        stacked.insert(stacked.end(), one.at("shape").begin(), one.at("shape").end());
        answers.push_back(HostTensor::zeros(prefix + name, {DType::f32, stacked}));
      };
      add("", {batches});
      if (slots >= 0) add("run/last/", {});
      if (slots >= 0) add("run/read/", {});
      if (slots > 0) add("run/", {slots});
    }
  return answers;
}

std::vector<HostTensor> oracle_answers() {
  std::vector<HostTensor> all;
  const auto add = [&](const std::string& name, const Shape& shape, double value, double bound) {
    all.push_back(filled(name, shape, value));
    all.push_back(filled("bound/" + name, {2}, bound));
  };
  if (read("request.json").at("task") != "train") {
    for (const HostTensor& answer : zero_answers()) add(answer.name, answer.type.shape, 0, sharp);
    return all;
  }
  const bool first = std::filesystem::current_path().parent_path().filename() == "0";
  const json program = read("graph.json");
  for (const json& value : program.at("training").at("values"))
    if (value.at("role") == "parameter")
      add("gradient/" + value.at("name").get<std::string>(), value.at("shape").get<Shape>(), 1,
          first ? loose : sharp);
  return all;
}

}  // namespace assay::faults
