// network.json: a network that a user brings, in our ops (docs/reference/network.md). `assay import` writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/graph/attributes.hpp"
#include "workloads/workload.hpp"

namespace assay {

// Of one sample: the leading "N" of the file, the batch, is left out.
struct SampleShape {
  Shape shape{};
};
nlohmann::json encode(const SampleShape& shape);
nlohmann::json schema_of(Of<SampleShape>);
void decode_with(const Decoder& decoder, const nlohmann::json& json, const JsonPlace& place,
                 SampleShape& out);

struct NetworkAttribute {
  Attribute value{};
};
nlohmann::json encode(const NetworkAttribute& attribute);
nlohmann::json schema_of(Of<NetworkAttribute>);
void decode_with(const Decoder& decoder, const nlohmann::json& json, const JsonPlace& place,
                 NetworkAttribute& out);

struct NetworkInput {
  std::string name{};
  std::string dtype = "f32";
  SampleShape shape{};
  std::optional<std::int64_t> below{};
};
inline Description describe(Of<NetworkInput>) {
  return fields("input", "What the network reads.",
                field("name", &NetworkInput::name, "Its name, by which nodes read it.").not_empty(),
                field("dtype", &NetworkInput::dtype, "The type of its elements: `i32` are tokens.")
                    .one_of("f32", "i32"),
                field("shape", &NetworkInput::shape, "`\"N\"`, the batch, and the extents of a sample."),
                field("below", &NetworkInput::below, "Only of `i32`: all tokens are below it.")
                    .between(1, INT32_MAX)
                    .optional());
}

struct NetworkTensor {
  std::string name{};
  std::vector<std::int64_t> shape{};
  std::string role = "parameter";
  std::string initializer = "zeros";
};
inline Description describe(Of<NetworkTensor>) {
  return fields(
      "tensor", "What the network keeps from step to step. Its elements are f32.",
      field("name", &NetworkTensor::name, "Its name, also in files of weights.").not_empty(),
      field("shape", &NetworkTensor::shape, "Its extents."),
      field("role", &NetworkTensor::role,
            "`parameter` is trained, `state` are the running statistics of a batch norm, and `constant` "
            "never changes.")
          .one_of("parameter", "state", "constant"),
      field("initializer", &NetworkTensor::initializer,
            "How it is drawn if the file of weights lacks it: `zeros`, `ones`, `glorot_uniform`, "
            "`he_normal`, `uniform_fan_in`, `normal:X`, `uniform:X` or `truncated_normal:X`.")
          .not_empty());
}

struct NetworkNode {
  std::string name{};
  std::string op{};
  std::vector<std::optional<std::string>> inputs{};
  std::map<std::string, NetworkAttribute> attributes{};
};
inline Description describe(Of<NetworkNode>) {
  return fields(
      "node", "An op. Its first result has its name, and only this result can be read.",
      field("name", &NetworkNode::name, "Its name.").not_empty(),
      field("op", &NetworkNode::op, "One of the [operators](operators.md) of a forward pass."),
      field("inputs", &NetworkNode::inputs,
            "The names of its operands in the order of the operator; null if an operand is absent."),
      field("attributes", &NetworkNode::attributes, "Those of the operator.").optional());
}

struct NetworkFile {
  std::string schema{};
  std::optional<std::string> description{};
  NetworkInput input{};
  std::string output{};
  bool per_position = false;
  std::vector<NetworkTensor> tensors{};
  std::vector<NetworkNode> nodes{};

  std::string where{};   // the file, for errors
  std::string digest{};  // of the document without its description: eight hex digits
};
inline Description describe(Of<NetworkFile>) {
  return fields("network", "The forward pass of a network. It is `network.json`.",
                field("schema", &NetworkFile::schema, "The format of this file.").one_of("assay-network/1"),
                field("description", &NetworkFile::description, "One line about it.").optional(),
                field("input", &NetworkFile::input, "What it reads: the only input."),
                field("output", &NetworkFile::output,
                      "The name of its logits: (N, C), or (N, T, C), with C of two or more."),
                field("per_position", &NetworkFile::per_position,
                      "Whether the logits are (N, T, C), with a label at each position.")
                    .optional(),
                field("tensors", &NetworkFile::tensors, "What it keeps from step to step."),
                field("nodes", &NetworkFile::nodes, "Its ops, in an order in which they can be executed."));
}

// The names of the files in the folder of a network.
inline constexpr std::string_view network_file_name = "network.json";
inline constexpr std::string_view network_weights_name = "weights.safetensors";
inline constexpr std::string_view network_original_name = "original.onnx";
inline constexpr std::string_view network_provenance_name = "provenance.json";

// Checks the types and the limits of the fields, and that names are unique; not what the nodes compute. `where` is the
// file, for errors. Throws JsonError with the file and the field.
NetworkFile network_file_of(const nlohmann::json& json, std::string_view where);
// Throws JsonError, also if the file is missing, too large or not strict JSON.
NetworkFile read_network_file(const std::filesystem::path& file);

}  // namespace assay
