#include "workloads/imported_network.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "tests/network_json.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

Workload of(const json& network, const char* folder = "models/mine") {
  return imported_workload(network_file_of(network, "network.json"), folder);
}

std::string error_of(const json& network, const char* folder = "models/mine") {
  try {
    of(network, folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The error after `change` of the small network.
std::string error_after(const std::function<void(json&)>& change) {
  json network = small_network_json();
  change(network);
  return error_of(network);
}

// Parameters are added in another order.
json without_order(const Graph& graph) {
  json written = to_json(graph);
  written.erase("name");
  auto& values = written["values"].get_ref<json::array_t&>();
  std::ranges::sort(values, {}, [](const json& value) { return value["name"].get<std::string>(); });
  return written;
}

TEST(ImportedNetwork, IsTheWorkloadThatItsFileWasWrittenFrom) {
  for (const Workload& own : all_workloads()) {
    const Workload read = of(network_json(own));
    EXPECT_EQ(read.parameters, own.parameters) << own.name;
    EXPECT_EQ(read.classes, own.classes) << own.name;
    EXPECT_EQ(read.next_token, own.next_token) << own.name;
    const Program theirs = read.build(own.form(4)), ours = own.build(4);
    EXPECT_EQ(without_order(theirs.inference), without_order(ours.inference)) << own.name;
    EXPECT_EQ(without_order(*theirs.training), without_order(*ours.training)) << own.name;
  }
}

TEST(ImportedNetwork, TrainsParametersAndNotConstants) {
  const Workload mine = of(small_network_json());
  EXPECT_EQ(mine.parameters, 4 * 9 + 4 + 4 + 3 * 64 + 3);
  EXPECT_EQ(mine.imported->constants, (std::set<std::string>{"offset"}));
  const Program program = mine.build(5);
  const Graph& training = *program.training;
  EXPECT_EQ(training.value(training.find("offset")).role, Role::state);
  EXPECT_EQ(training.updates().size(), 2U) << "the running statistics";
  EXPECT_EQ(training.with_role(Role::mask).size(), 1U);
  EXPECT_EQ(program.inference.with_role(Role::mask).size(), 0U);
  const Graph step = training_step(program, {});
  EXPECT_EQ(step.find("offset.m"), none) << "it has no moments";
  EXPECT_NE(step.find("fc.bias.m"), none);
}

TEST(ImportedNetwork, HasTheFolderAndTheDigestInItsName) {
  json network = small_network_json();
  const std::string name = of(network, "models/res.net-50/").name;
  EXPECT_THAT(name, ::testing::MatchesRegex("res\\.net-50@[0-9a-f]{8}"));
  network["description"] = "another one";
  EXPECT_EQ(of(network, "res.net-50").name, name) << "a description is no part of the network";
  network["nodes"][1]["attributes"]["epsilon"] = 1e-4;
  EXPECT_NE(of(network, "res.net-50").name, name);
  for (const char* folder : {"my model", "a@b", "..", "/", "ü", "a:b"})
    EXPECT_THAT(error_of(network, folder), HasSubstr("rename the folder")) << folder;
}

TEST(ImportedNetwork, GivesGraphsPlainAndDifferentNames) {
  json network = small_network_json();
  const auto rename = [&](const json& from, const json& to) {
    for (const char* list : {"nodes", "tensors"}) {
      for (json& entry : network[list]) {
        if (entry["name"] == from) entry["name"] = to;
        if (entry.contains("inputs")) std::ranges::replace(entry["inputs"], from, to);
      }
    }
  };
  rename("relu", "bn_weight");      // folds to the name of a tensor
  rename("flat", "labels");         // is a name of ours
  rename("shifted", "fc.bias.m");   // is the moment of another tensor
  rename("offset", "bn.gradient");  // is what autodiff calls a result
  rename("drop", "Stück für Stück");
  const Workload workload = of(network);
  const Program program = workload.build(2);
  EXPECT_NO_THROW(training_step(program, {}));
  EXPECT_NO_THROW(program_from_json(to_json(program)));
  EXPECT_EQ(workload.imported->names.at("conv_weight"), "/conv/weight");
  EXPECT_EQ(workload.imported->constants, (std::set<std::string>{"bn.gradient_"}));
  for (const Value& value : program.training->values())
    EXPECT_EQ(
        value.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"),
        std::string::npos)
        << value.name;
}

TEST(ImportedNetwork, ReadsNamesThatAreAllAlikeQuickly) {
  json network = small_network_json();
  json& nodes = network["nodes"];
  std::string before = "relu";
  for (int i = 0; i < 20'000; ++i) {
    const std::string name =
        std::string(static_cast<std::size_t>(i % 150) + 1, '/') + std::to_string(i / 150);
    nodes.insert(nodes.end() - 4, json{{"name", name}, {"op", "tanh"}, {"inputs", {before}}});
    before = name;
  }
  nodes[nodes.size() - 4]["inputs"] = {before};
  EXPECT_EQ(of(network).build(2).inference.nodes().size(), 20'006U);
}

TEST(ImportedNetwork, TakesOnlyItsSamplesAndClasses) {
  const Workload mine = of(small_network_json());
  EXPECT_NO_THROW(mine.build(2, {1, 6, 6}, 3));
  EXPECT_THROW(mine.build(2, {3, 6, 6}, 3), GraphError);
  EXPECT_THROW(mine.build(2, {1, 6, 6}, 10), GraphError);
}

TEST(ImportedNetwork, PredictsTokensOrHasALabelAtEachPosition) {
  json network = network_json(find_workload("nanogpt"));
  EXPECT_TRUE(of(network).next_token);
  network["input"]["below"] = 10;  // a class is then no token
  const Workload tagger = of(network);
  EXPECT_FALSE(tagger.next_token);
  const Program program = tagger.build(2);
  const Shape logits = program.inference.value(program.inference.output("logits")).type.shape;
  EXPECT_EQ(tagger.positions, logits[1]);
  EXPECT_EQ(program.training->value(program.training->find("labels")).type.shape,
            (Shape{2, tagger.positions}));
}

TEST(ImportedNetwork, NamesTheFileTheNodeAndTheFieldOfAFault) {
  struct Fault {
    std::function<void(json&)> change;
    std::vector<std::string> said;
  };
  const std::vector<Fault> faults{
      {[](json& n) { n["schema"] = "assay-network/2"; }, {"network.json/schema", "assay-network/1"}},
      {[](json& n) { n["more"] = 1; }, {"network.json/more", "unknown field"}},
      {[](json& n) { n["x_more"] = 1; }, {"network.json/x_more", "unknown field"}},
      {[](json& n) { n.erase("output"); }, {"\"output\" is missing"}},
      {[](json& n) { n["description"] = "two\nlines"; }, {"network.json/description"}},
      {[](json& n) { n["input"]["shape"] = {3, 1, 6, 6}; }, {"network.json/input/shape", "\"N\""}},
      {[](json& n) { n["input"]["shape"] = {"N", 1, "N", 6}; }, {"network.json/input/shape/2", "integer"}},
      {[](json& n) { n["input"]["shape"] = {"N", 1, -6, 6}; }, {"input/shape", "at least 1"}},
      {[](json& n) { n["input"]["below"] = 5; }, {"input/below", "only an input of i32"}},
      {[](json& n) { n["input"]["dtype"] = "i32"; }, {"input", "'below' is missing"}},
      {[](json& n) { n["input"]["dtype"] = "f16"; }, {"input/dtype", "f32, i32"}},
      {[](json& n) { n["tensors"][0]["role"] = "mask"; }, {"tensors/0/role", "parameter, state, constant"}},
      {[](json& n) { n["tensors"][0]["shape"] = {4.5}; }, {"tensors/0/shape/0", "integer"}},
      {[](json& n) { n["tensors"][0]["shape"] = Shape(9, 1); }, {"tensors/0/shape", "9 dimensions"}},
      {[](json& n) { n["tensors"][0]["shape"] = {1'000'000, 1'000'000}; }, {"tensors/0/shape", "1e+10"}},
      {[](json& n) { n["tensors"][0]["shape"] = {INT64_MAX, INT64_MAX}; }, {"tensors/0/shape"}},
      {[](json& n) { n["tensors"][1]["name"] = "bn"; }, {"nodes/1/name", "'bn' is taken"}},
      {[](json& n) { n["tensors"][1]["name"] = ""; }, {"tensors/1/name", "is empty"}},
      {[](json& n) { n["nodes"][1]["name"] = "a\nb"; }, {"nodes/1/name", "control"}},
      {[](json& n) { n["nodes"][1]["name"] = std::string(201, 'a'); }, {"nodes/1/name", "1 to 200 bytes"}},
      {[](json& n) { n["nodes"] = json::array(); }, {"nodes", "there is none"}},
      {[](json& n) { n["nodes"] = json::object(); }, {"nodes", "should be a list"}},
      {[](json& n) { n["nodes"][2]["inputs"] = {1}; }, {"nodes/2/inputs/0", "should be text"}},
      {[](json& n) { n["nodes"][0]["attributes"]["stride"] = nullptr; }, {"nodes/0/attributes/stride"}},
      {[](json& n) { n["nodes"][2]["op"] = "rleu"; },
       {"network.json", "node 'relu'", "op: 'rleu'", "'relu'"}},
      {[](json& n) { n["nodes"][2]["op"] = "adam"; }, {"node 'relu'", "op: 'adam' is not"}},
      {[](json& n) { n["nodes"][2]["op"] = "relu_gradient"; }, {"node 'relu'", "op: 'relu_gradient'"}},
      {[](json& n) { n["nodes"][2]["inputs"] = {"fc"}; }, {"node 'relu'", "inputs/0", "earlier node"}},
      {[](json& n) { n["nodes"][2]["inputs"] = {"relu"}; }, {"node 'relu'", "inputs/0", "earlier node"}},
      {[](json& n) { n["nodes"][2]["inputs"] = json::array(); }, {"node 'relu'", "operand"}},
      {[](json& n) { n["nodes"][2]["inputs"] = {"bn", "bn"}; }, {"node 'relu'", "operand"}},
      {[](json& n) { n["nodes"][2]["inputs"] = {nullptr}; }, {"node 'relu'", "operand 'x' is missing"}},
      {[](json& n) { n["nodes"][2]["attributes"]["slope"] = 1; }, {"node 'relu'", "no attribute 'slope'"}},
      {[](json& n) { n["nodes"][0]["attributes"]["stride"] = 0; }, {"node '/conv/Conv_output_0'", "stride"}},
      {[](json& n) { n["nodes"][0]["attributes"]["stride"] = "1"; },
       {"node '/conv/Conv_output_0'", "stride"}},
      {[](json& n) { n["nodes"][1]["attributes"]["training"] = true; }, {"node 'bn'", "attributes/training"}},
      {[](json& n) { n["nodes"][1]["inputs"][3] = "bn.bias"; }, {"node 'bn'", "inputs/3", "role state"}},
      {[](json& n) { n["nodes"][1]["inputs"][3] = "bn.running_var"; }, {"node 'bn'", "inputs/4", "another"}},
      {[](json& n) { n["nodes"][1]["inputs"].erase(4); }, {"node 'bn'", "4 operands"}},
      {[](json& n) { n["tensors"][5]["role"] = "state"; }, {"node 'shifted'", "inputs/1", "role constant"}},
      {[](json& n) { n["nodes"][5]["attributes"]["rate"] = 1; }, {"node 'drop'", "rate"}},
      {[](json& n) { n["nodes"][5]["attributes"].clear(); }, {"node 'drop'", "'rate' is missing"}},
      {[](json& n) { n["nodes"][5]["attributes"]["seed"] = 1; }, {"node 'drop'", "'seed'"}},
      {[](json& n) { n["nodes"][5]["inputs"].push_back("bn.bias"); }, {"node 'drop'", "inputs"}},
      {[](json& n) { n["nodes"][3]["attributes"]["shape"] = {2, 64}; },
       {"network.json", "a batch of 2", "flat"}},
      {[](json& n) { n["nodes"][3]["attributes"]["shape"] = {-1, -1}; }, {"node 'flat'"}},
      {[](json& n) { n["nodes"][3]["attributes"]["shape"] = {-1, 32}; }, {"node 'shifted'"}},
      {[](json& n) { n["nodes"][4]["inputs"][1] = "flat"; }, {"tensor 'offset' is read by no node"}},
      {[](json& n) { n["nodes"][6]["inputs"][0] = "flat"; }, {"node 'drop' is read by no node"}},
      {[](json& n) { n["output"] = "flat"; }, {"node 'fc' is read by no node"}},
      {[](json& n) { n["output"] = "relu"; }, {"output 'relu' is f32 (2, 4, 4, 4)"}},
      {[](json& n) { n["output"] = "nothing"; }, {"output: 'nothing' is not"}},
      {[](json& n) { n["per_position"] = true; }, {"output 'fc'", "N, T, C"}},
      {[](json& n) { n["tensors"][6]["shape"] = {1, 64}, n["tensors"][7]["shape"] = {1}; },
       {"output 'fc'", "two classes"}},
  };
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const std::string said = error_after(faults[i].change);
    for (const std::string& part : faults[i].said) EXPECT_THAT(said, HasSubstr(part)) << "fault " << i;
  }
}

TEST(ImportedNetwork, ReadsTheFileOfAFolder) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_network(folder / "mine"), JsonError);
  std::filesystem::create_directory(folder / "mine");
  const auto write = [&](const std::string& text) {
    write_atomically(folder / "mine" / network_file_name, text, false);
  };
  write(small_network_json().dump(2));
  const Workload mine = read_network(folder / "mine");
  EXPECT_EQ(mine.imported->folder, folder / "mine");
  EXPECT_EQ(mine.name, of(small_network_json()).name) << "blanks do not matter";
  write("{\"schema\": 1, \"schema\": 2}");
  EXPECT_THROW(read_network(folder / "mine"), JsonError);
  write(std::string((std::size_t{64} << 20) + 1, ' '));
  EXPECT_THROW(read_network(folder / "mine"), JsonError);
}

TEST(NetworkFile, IsWrittenAsItWasRead) {
  const json network = small_network_json();
  json written = encode(network_file_of(network, "network.json"));
  EXPECT_EQ(written["nodes"], network["nodes"]);
  EXPECT_EQ(written["tensors"], network["tensors"]);
  EXPECT_EQ(written["input"]["shape"], network["input"]["shape"]);
}

}  // namespace
}  // namespace assay
