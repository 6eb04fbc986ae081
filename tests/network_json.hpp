// network.json documents for tests.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "harness/graph/op.hpp"
#include "workloads/workload.hpp"

namespace assay {

inline nlohmann::json node_json(const Graph& graph, const nlohmann::json& written) {
  using nlohmann::json;
  json node = written;
  node.erase("outputs");
  json& attributes = node["attributes"];
  for (const char* key : {"training", "sparse_gradient"})
    if (attributes.contains(key)) attributes.erase(key);
  if (node["op"] == "dropout") node["inputs"].erase(1);
  if (node["op"] == "reshape" && attributes["shape"][0] == graph.value(graph.find("inputs")).type.shape[0])
    attributes["shape"][0] = -1;
  return node;
}

// The forward pass of a workload, as `assay import` would write it.
inline nlohmann::json network_json(const Workload& workload) {
  using nlohmann::json;
  const Program program = workload.build(7);
  const Graph& graph = *program.training;
  json tensors = json::array(), nodes = json::array(), shape = json::array({"N"});
  for (const Value& value : graph.values())
    if (value.role == Role::parameter || value.role == Role::state)
      tensors.push_back({{"name", value.name},
                         {"shape", value.type.shape},
                         {"role", to_string(value.role)},
                         {"initializer", value.initializer}});
  const json written = to_json(graph);
  for (const json& node : written["nodes"])
    if (node["op"] != "softmax_cross_entropy") nodes.push_back(node_json(graph, node));
  for (const std::int64_t extent : workload.sample_shape) shape.push_back(extent);
  json input{{"name", "inputs"}, {"dtype", workload.vocabulary > 0 ? "i32" : "f32"}, {"shape", shape}};
  if (workload.vocabulary > 0) input["below"] = workload.vocabulary;
  return {{"schema", "assay-network/1"},
          {"description", workload.description.substr(0, 100)},
          {"input", input},
          {"output", written["outputs"]["logits"]},
          {"per_position", workload.next_token},
          {"tensors", tensors},
          {"nodes", nodes}};
}

// A network with a convolution, a batch norm, a dropout and a constant, on images (1, 6, 6) of three classes.
inline nlohmann::json small_network_json() {
  using nlohmann::json;
  const auto tensor = [](const char* name, const Shape& shape, const char* role, const char* initializer) {
    return json{{"name", name}, {"shape", shape}, {"role", role}, {"initializer", initializer}};
  };
  const auto node = [](const char* name, const char* op, const json& inputs,
                       const json& attributes = json::object()) {
    return json{{"name", name}, {"op", op}, {"inputs", inputs}, {"attributes", attributes}};
  };
  return {
      {"schema", "assay-network/1"},
      {"description", "convolution, batch norm, dropout and a constant"},
      {"input", {{"name", "images:0"}, {"dtype", "f32"}, {"shape", {"N", 1, 6, 6}}}},
      {"output", "fc"},
      {"tensors",
       {tensor("/conv/weight", {4, 1, 3, 3}, "parameter", "he_normal"),
        tensor("bn.weight", {4}, "parameter", "ones"), tensor("bn.bias", {4}, "parameter", "zeros"),
        tensor("bn.running_mean", {4}, "state", "zeros"), tensor("bn.running_var", {4}, "state", "ones"),
        tensor("offset", {64}, "constant", "zeros"),
        tensor("fc.weight", {3, 64}, "parameter", "glorot_uniform"),
        tensor("fc.bias", {3}, "parameter", "zeros")}},
      {"nodes",
       {node("/conv/Conv_output_0", "convolution", {"images:0", "/conv/weight", nullptr},
             {{"stride", 1}, {"padding", 0}}),
        node("bn", "batch_norm",
             {"/conv/Conv_output_0", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"},
             {{"epsilon", 1e-5}, {"momentum", 0.9}}),
        node("relu", "relu", {"bn"}), node("flat", "reshape", {"relu"}, {{"shape", {-1, 64}}}),
        node("shifted", "add", {"flat", "offset"}), node("drop", "dropout", {"shifted"}, {{"rate", 0.25}}),
        node("fc", "linear", {"drop", "fc.weight", "fc.bias"})}}};
}

}  // namespace assay
