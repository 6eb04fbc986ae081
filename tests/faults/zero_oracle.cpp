// An oracle that computes nothing.
//
//   zero_oracle              is a worker in the folder of an oracle
//   zero_oracle --describe   prints its backend.json
//
// Task infer: its answers are zeros. Task train: it has only what shows how sharp an exam is, gradients of 1 with their
// bounds. The bounds of the first exam that is drawn (in a folder 0) are loose.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "harness/core/io/safetensors.hpp"
#include "harness/protocol/channel.hpp"
#include "harness/protocol/message.hpp"
#include "tests/faults/zero_answers.hpp"

namespace assay::faults {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double loose = 1e-2, sharp = 1e-7;

HostTensor filled(const std::string& name, Shape shape, double value) {
  HostTensor tensor = HostTensor::zeros(name, {DType::f64, std::move(shape)});
  for (double& element : tensor.as<double>()) element = value;
  return tensor;
}

std::vector<HostTensor> answers() {
  std::vector<HostTensor> all;
  const auto add = [&](const std::string& name, Shape shape, double value, double bound) {
    all.push_back(filled(name, std::move(shape), value));
    all.push_back(filled("bound/" + name, {2}, bound));
  };
  std::ifstream request("request.json"), graph("graph.json");
  if (json::parse(request).at("task") != "train") {
    for (const Answer& answer : inference_answers()) add(answer.name, answer.shape, 0, sharp);
    return all;
  }
  const json program = json::parse(graph);
  const bool first = fs::current_path().parent_path().filename() == "0";
  for (const json& value : program.at("training").at("values"))
    if (value.at("role") == "parameter")
      add("gradient/" + value.at("name").get<std::string>(), value.at("shape").get<Shape>(), 1,
          first ? loose : sharp);
  return all;
}

json description() {
  return {{"name", "zero"},
          {"description", "Answers every exam with zeros"},
          {"kind", "oracle"},
          {"oracle", true},
          {"command", json::array({fs::read_symlink("/proc/self/exe").string()})},
          {"devices", json::array({"cpu"})},
          {"modes", json::array({"eager"})},
          {"tasks", json::array({"train", "infer"})},
          {"precisions", json::array({"fp64"})},
          {"layouts", json::array({"native"})},
          {"loaders", json::array({"resident"})}};
}

int serve() {
  protocol::Channel channel{3, 4};
  const auto send = [&](const protocol::Event& event) { channel.write_line(protocol::write(event)); };
  send(protocol::Hello{protocol::version, "zero", "1.0", {}, {}});
  for (;;) {
    const protocol::Line line = channel.read_line();
    if (line.reading != protocol::Reading::line) return 0;
    if (protocol::parse_command(line.text).verb == protocol::Verb::quit) break;
    fs::create_directories("results");
    write_safetensors("results/oracle.safetensors", answers());
    send(protocol::Judged{});
  }
  send(protocol::Bye{});
  return 0;
}

}  // namespace
}  // namespace assay::faults

int main(int count, char** arguments) {
  if (count > 1 && std::string(arguments[1]) == "--describe") {
    std::cout << assay::faults::description().dump(2) << '\n';
    return 0;
  }
  return assay::faults::serve();
}
