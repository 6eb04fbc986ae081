#include "harness/graph/program.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/projections.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

constexpr std::string_view schema = "assay-program/2";

[[noreturn]] void fail(std::string_view path, std::string_view what) {
  throw GraphError(fmt::format("graph.json {}: {}", path.empty() ? "/" : path, what));
}

// Runs `read` and adds the place to the front of its error text.
template <typename F>
auto at(const std::string& path, F&& read) {
  try {
    return read();
  } catch (const GraphError& error) {
    const std::string text = error.what();
    if (text.starts_with("graph.json ")) throw;
    fail(path, text);
  }
}

const Json& member(const Json& object, const char* key, const std::string& path) {
  if (!object.is_object()) fail(path, fmt::format("expected an object, found {}", object.type_name()));
  const auto found = object.find(key);
  if (found == object.end()) fail(path, fmt::format("'{}' is missing", key));
  return *found;
}

const Json& array(const Json& object, const char* key, const std::string& path) {
  const Json& value = member(object, key, path);
  if (!value.is_array())
    fail(path + "/" + key, fmt::format("expected an array, found {}", value.type_name()));
  return value;
}

const Json& object_member(const Json& object, const char* key, const std::string& path) {
  const Json& value = member(object, key, path);
  if (!value.is_object())
    fail(path + "/" + key, fmt::format("expected an object, found {}", value.type_name()));
  return value;
}

std::string text(const Json& value, const std::string& path) {
  if (!value.is_string()) fail(path, fmt::format("expected a string, found {}", value.type_name()));
  return value.get<std::string>();
}

std::int64_t integer(const Json& value, const std::string& path) {
  if (!value.is_number_integer()) fail(path, fmt::format("expected an integer, found {}", value.type_name()));
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    fail(path, fmt::format("{} is too large", value.get<std::uint64_t>()));
  }
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> integers(const Json& value, const std::string& path) {
  if (!value.is_array()) fail(path, fmt::format("expected an array, found {}", value.type_name()));
  std::vector<std::int64_t> list;
  for (const Json& element : value) list.push_back(integer(element, fmt::format("{}/{}", path, list.size())));
  return list;
}

Attribute attribute(const Json& value, const std::string& path) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return integer(value, path);
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return integers(value, path);
}

Json attributes_json(const Attributes& attributes) {
  Json json = Json::object();
  for (const auto& [name, value] : attributes.values()) {
    Json& place = json[name];
    std::visit([&](const auto& typed) { place = typed; }, value);
  }
  return json;
}

ValueId known(const Graph& graph, const std::string& name, const std::string& path) {
  const ValueId id = graph.find(name);
  if (id == none) fail(path, fmt::format("unknown value '{}'", name.substr(0, 80)));
  return id;
}

// Nodes and values refer to each other: values are read in their order, and each node when its first result
// occurs.
class GraphReader {
 public:
  GraphReader(const Json& json, std::string path)
      : path_(std::move(path)),
        values_(array(json, "values", path_)),
        nodes_(array(json, "nodes", path_)),
        graph_(text(member(json, "name", path_), path_ + "/name")) {
    for (std::size_t i = 0; i < values_.size(); ++i) read_value(i);
    while (next_node_ < nodes_.size()) read_node();
    for (std::size_t i = 0; i < values_.size(); ++i) check_value(i);
    const std::string outputs = path_ + "/outputs";
    for (const auto& item : object_member(json, "outputs", path_).items()) {
      at(outputs,
         [&] { graph_.add_output(item.key(), known(graph_, text(item.value(), outputs), outputs)); });
    }
    const std::string updates = path_ + "/updates";
    for (const auto& item : object_member(json, "updates", path_).items()) {
      at(updates, [&] {
        const ValueId source = known(graph_, text(item.value(), updates), updates);
        graph_.add_update(known(graph_, item.key(), updates), source);
      });
    }
    if (graph_.values().size() != values_.size()) {
      fail(path_ + "/values", fmt::format("{} values are declared, but the nodes and feeds make {}",
                                          values_.size(), graph_.values().size()));
    }
  }

  Graph take() { return std::move(graph_); }

 private:
  TensorType type(const Json& value, const std::string& path) const {
    return {parse_dtype(text(member(value, "dtype", path), path + "/dtype")),
            integers(member(value, "shape", path), path + "/shape")};
  }

  void read_value(std::size_t i) {
    const std::string path = fmt::format("{}/values/{}", path_, i);
    const Json& value = values_[i];
    at(path, [&] {
      const std::string name = text(member(value, "name", path), path + "/name");
      const Role role = parse_role(text(member(value, "role", path), path + "/role"));
      if (!declared_.insert(name).second)
        fail(path, fmt::format("the value name '{}' is taken", name.substr(0, 80)));
      if (role == Role::intermediate) {
        while (graph_.find(name) == none) {
          if (next_node_ == nodes_.size()) fail(path, fmt::format("no node makes '{}'", name.substr(0, 80)));
          read_node();
        }
        return;
      }
      std::string initializer;
      if (value.contains("initializer")) initializer = text(value["initializer"], path + "/initializer");
      graph_.add_value(name, type(value, path), role, std::move(initializer));
    });
  }

  void read_node() {
    const std::size_t i = next_node_++;
    const std::string path = fmt::format("{}/nodes/{}", path_, i);
    const Json& node = nodes_[i];
    at(path, [&] {
      const std::string name = text(member(node, "name", path), path + "/name");
      const Op& op = find_op(text(member(node, "op", path), path + "/op"));
      std::vector<ValueId> inputs;
      for (const Json& operand : array(node, "inputs", path)) {
        inputs.push_back(operand.is_null() ? none : read_operand(operand, path + "/inputs"));
      }
      Attributes attributes;
      if (node.contains("attributes")) {
        const std::string place = path + "/attributes";
        for (const auto& [key, value] : object_member(node, "attributes", path).items()) {
          attributes.set(key, attribute(value, place + "/" + key));
        }
        if (const auto of_fusion = attribute_of_joined(op, attributes); !of_fusion.empty())
          fail(fmt::format("{}/{}", place, of_fusion),
               fmt::format("[{}] only fusion writes this attribute", op.name()));
      }
      const Json& outputs = array(node, "outputs", path);
      std::vector<bool> wanted;
      for (const Json& output : outputs) wanted.push_back(!output.is_null());
      // As for operands, the last ones that only fusion adds need not be listed.
      const std::size_t expected = result_count(op, inputs.size());
      const std::vector<Result> results = op.results();
      while (wanted.size() < expected && result_at(results, wanted.size()).fused) wanted.push_back(false);
      if (wanted.size() != expected) {
        fail(path + "/outputs", fmt::format("[{}] makes {}, but the list has {}", op.name(),
                                            plural(expected, "result"), outputs.size()));
      }
      const NodeId id = graph_.add_node(op, name, inputs, std::move(attributes), std::move(wanted));
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (outputs[k].is_null()) continue;
        const std::string& made = graph_.value(graph_.node(id).outputs[k]).name;
        const std::string found = text(outputs[k], path + "/outputs");
        if (found != made) {
          fail(path + "/outputs",
               fmt::format("this result must be called '{}', found '{}'", made, found.substr(0, 80)));
        }
      }
    });
  }

  ValueId read_operand(const Json& operand, const std::string& path) const {
    const std::string name = text(operand, path);
    const ValueId id = graph_.find(name);
    if (id == none) {
      fail(path, fmt::format(
                     "'{}' is not available yet: it is made later (a cycle?), declared later or not declared",
                     name.substr(0, 80)));
    }
    return id;
  }

  // The declaration of a value must match the type that the ops infer.
  void check_value(std::size_t i) const {
    const std::string path = fmt::format("{}/values/{}", path_, i);
    const Json& json = values_[i];
    at(path, [&] {
      const Value& value = graph_.value(graph_.find(json["name"].get<std::string>()));
      const Role role = parse_role(json["role"].get<std::string>());
      const bool opaque = json.contains("opaque") && json["opaque"] == true;
      const TensorType declared = type(json, path);
      if (value.type != declared || value.role != role || value.opaque != opaque) {
        fail(path,
             fmt::format("'{}' is declared as {} {}, but the ops infer {} {}", value.name, to_string(role),
                         to_string(declared), to_string(value.role), to_string(value.type)));
      }
    });
  }

  std::string path_;
  const Json& values_;
  const Json& nodes_;
  Graph graph_;
  std::set<std::string> declared_;
  std::size_t next_node_ = 0;
};

double number(const Json& json, const char* key, const std::string& path) {
  const Json& value = member(json, key, path);
  if (!value.is_number())
    fail(path + "/" + key, fmt::format("expected a number, found {}", value.type_name()));
  return value.get<double>();
}

OptimizerSpec read_optimizer(const Json& json, const std::string& path) {
  OptimizerSpec spec;
  spec.kind = text(member(json, "kind", path), path + "/kind");
  spec.momentum = number(json, "momentum", path);
  spec.decay = number(json, "decay", path);
  spec.beta1 = number(json, "beta1", path);
  spec.beta2 = number(json, "beta2", path);
  spec.epsilon = number(json, "epsilon", path);
  spec.weight_decay = number(json, "weight_decay", path);
  if (json.contains("clip_norm")) spec.clip_norm = number(json, "clip_norm", path);
  at(path, [&] { check_optimizer(spec); });
  return spec;
}

}  // namespace

nlohmann::json to_json(const Graph& graph) {
  Json values = Json::array();
  for (const Value& value : graph.values()) {
    Json entry{{"name", value.name},
               {"dtype", to_string(value.type.dtype)},
               {"shape", value.type.shape},
               {"role", to_string(value.role)}};
    if (!value.initializer.empty()) entry["initializer"] = value.initializer;
    if (value.opaque) entry["opaque"] = true;
    values.push_back(std::move(entry));
  }
  const auto names = [&](const std::vector<ValueId>& ids) {
    Json list = Json::array();
    for (const ValueId id : ids) list.push_back(id == none ? Json(nullptr) : Json(graph.value(id).name));
    return list;
  };
  Json nodes = Json::array();
  for (const Node& node : graph.nodes()) {
    const std::vector<Operand> operands = node.op->operands();
    std::vector<ValueId> inputs = node.inputs;
    while (!inputs.empty() && inputs.back() == none &&
           operand_at(*node.op, operands, inputs.size() - 1).fused)
      inputs.pop_back();
    const std::vector<Result> results = node.op->results();
    std::vector<ValueId> made = node.outputs;
    while (!made.empty() && made.back() == none && result_at(results, made.size() - 1).fused) made.pop_back();
    nodes.push_back({{"name", node.name},
                     {"op", node.op->name()},
                     {"inputs", names(inputs)},
                     {"outputs", names(made)},
                     {"attributes", attributes_json(node.attributes)}});
  }
  Json outputs = Json::object();
  for (const Graph::Output& output : graph.outputs()) outputs[output.name] = graph.value(output.value).name;
  Json updates = Json::object();
  for (const Update& update : graph.updates()) {
    updates[graph.value(update.target).name] = graph.value(update.source).name;
  }
  return {{"name", graph.name()},
          {"values", values},
          {"nodes", nodes},
          {"outputs", outputs},
          {"updates", updates}};
}

nlohmann::json to_json(const OptimizerSpec& optimizer) {
  return {{"kind", optimizer.kind},
          {"momentum", optimizer.momentum},
          {"decay", optimizer.decay},
          {"beta1", optimizer.beta1},
          {"beta2", optimizer.beta2},
          {"epsilon", optimizer.epsilon},
          {"weight_decay", optimizer.weight_decay},
          {"clip_norm", optimizer.clip_norm}};
}

nlohmann::json to_json(const Program& program) {
  Json json{{"schema", schema}, {"kind", to_string(program.kind)}, {"inference", to_json(program.inference)}};
  if (program.training) json["training"] = to_json(*program.training);
  if (program.optimizer) json["optimizer"] = to_json(*program.optimizer);
  if (program.is_op()) json["cotangents"] = program.cotangents;
  if (program.decoding) {
    json["decoding"] = {{"prompt", program.decoding->prompt},
                        {"prefill", to_json(program.decoding->prefill)},
                        {"step", to_json(program.decoding->step)}};
  }
  if (!program.segments.empty()) {
    Json segments = Json::array();
    for (const Segment& segment : program.segments) segments.push_back({segment.begin, segment.end});
    json["segments"] = std::move(segments);
  }
  return json;
}

Graph graph_from_json(const nlohmann::json& json) { return GraphReader(json, "").take(); }

Program program_from_json(const nlohmann::json& json) {
  const std::string found = text(member(json, "schema", ""), "/schema");
  if (found != schema) fail("/schema", fmt::format("expected '{}', found '{}'", schema, found.substr(0, 80)));
  const std::string kind = text(member(json, "kind", ""), "/kind");
  const std::optional<ProgramKind> known = from_word<ProgramKind>(kind);
  if (!known) fail("/kind", fmt::format("expected 'network' or 'op', found '{}'", kind.substr(0, 80)));
  Program program{.training = {},
                  .inference = GraphReader(member(json, "inference", ""), "/inference").take(),
                  .kind = *known};
  if (json.contains("training"))
    program.training = GraphReader(member(json, "training", ""), "/training").take();
  if (json.contains("optimizer")) program.optimizer = read_optimizer(json.at("optimizer"), "/optimizer");
  if (json.contains("cotangents")) {
    for (const auto& item : object_member(json, "cotangents", "").items())
      program.cotangents[item.key()] = text(item.value(), "/cotangents/" + item.key());
  }
  if (json.contains("decoding")) {
    const Json& decoding = object_member(json, "decoding", "");
    program.decoding = {integer(member(decoding, "prompt", "/decoding"), "/decoding/prompt"),
                        GraphReader(member(decoding, "prefill", "/decoding"), "/decoding/prefill").take(),
                        GraphReader(member(decoding, "step", "/decoding"), "/decoding/step").take()};
  }
  if (json.contains("segments")) {
    for (const Json& segment : array(json, "segments", "")) {
      const std::vector<std::int64_t> ends = integers(segment, "/segments");
      if (ends.size() != 2) fail("/segments", "a segment has a first node and the node after its last");
      program.segments.push_back({ends[0], ends[1]});
    }
  }
  at("", [&] { check_program(program); });
  return program;
}

}  // namespace assay
