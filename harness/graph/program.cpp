#include "harness/graph/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

// The batch of a feed: its first dimension.
std::int64_t feed(const Graph& graph, std::string_view name, Role role) {
  const ValueId id = graph.find(name);
  if (id == none || graph.value(id).role != role) {
    throw GraphError(fmt::format("graph '{}': the {} '{}' is missing", graph.name(), to_string(role), name));
  }
  const Shape& shape = graph.value(id).type.shape;
  if (shape.empty())
    throw GraphError(fmt::format("graph '{}': '{}' must have a batch dimension", graph.name(), name));
  return shape[0];
}

// For a single op: both graphs have the same names, and each given gradient has the shape of its output.
void check_op(const Program& program) {
  const auto refuse = [&](const Graph& graph, std::string_view name, std::string_view what) {
    throw GraphError(fmt::format("graph '{}': '{}' {}", graph.name(), name, what));
  };
  const auto same = [&](const Graph& from, const Graph& in, Role role) {
    for (const ValueId id : from.with_role(role)) {
      const Value& value = from.value(id);
      const ValueId other = in.find(value.name);
      if (other == none || in.value(other).type != value.type || in.value(other).role != role)
        refuse(from, value.name, "differs in the other graph of the program");
    }
  };
  const auto complete = [&](const Graph& graph) {
    for (const Role role : {Role::parameter, Role::label}) {
      for (const ValueId id : graph.with_role(role))
        refuse(graph, graph.value(id).name,
               fmt::format("is a {}, but every operand of a single op must be an input", to_string(role)));
    }
    if (graph.outputs().empty()) throw GraphError(fmt::format("graph '{}' has no output", graph.name()));
    if (graph.with_role(Role::input).empty())
      throw GraphError(fmt::format("graph '{}' has no input", graph.name()));
  };
  const Graph& inference = program.inference;
  complete(inference);
  if (program.optimizer)
    throw GraphError(fmt::format("graph '{}': a single op has no optimizer", inference.name()));
  if (!program.training) return;
  const Graph& training = *program.training;
  complete(training);
  same(inference, training, Role::input);
  same(inference, training, Role::state);
  same(training, inference, Role::state);
  same(inference, training, Role::mask);
  same(training, inference, Role::mask);
  for (const auto& [output, name] : program.cotangents) {
    const ValueId id = training.find(name);
    if (id == none || training.value(id).role != Role::input) refuse(training, name, "is not an input");
    if (training.value(id).type != training.value(training.output(output)).type)
      refuse(training, name,
             fmt::format("is {}, but its output '{}' has {}", to_string(training.value(id).type), output,
                         to_string(training.value(training.output(output)).type)));
  }
}

}  // namespace

std::map<std::string, PackedInput> packed_inputs(const Graph& graph, std::int64_t samples) {
  std::map<std::string, PackedInput> inputs;
  std::int64_t next = 0;
  for (const ValueId id : graph.with_role(Role::input)) {
    const std::int64_t elements = graph.value(id).type.elements() / samples;
    inputs[graph.value(id).name] = {next, elements};
    next += elements;
  }
  return inputs;
}

bool packs_inputs(const Program& program) {
  return program.is_op() || program.inference.with_role(Role::input).size() > 1;
}

std::int64_t input_elements(const Graph& graph) {
  std::int64_t elements = 0;
  for (const ValueId id : graph.with_role(Role::input)) elements += graph.value(id).type.elements();
  return elements;
}

std::vector<std::string> Program::moments() const {
  return optimizer ? optimizer->moments() : std::vector<std::string>();
}

const Graph& Program::graph(Task task) const {
  if (task != Task::train) return inference;
  if (!training)
    throw GraphError(fmt::format("graph '{}': the program is only inferred; use task infer", name()));
  return *training;
}

std::int64_t Program::generated() const {
  if (!decoding) return 0;
  return inference.value(inference.find("inputs")).type.shape.back() - decoding->prompt;
}

namespace {

// Whether nodes read the value only as the operand `mask`, which has no gradient.
bool is_only_a_mask(const Graph& graph, ValueId id) {
  bool read = false;
  for (const Node& node : graph.nodes()) {
    const std::vector<Operand> operands = node.op->operands();
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != id) continue;
      if (operand_at(*node.op, operands, i).name != "mask") return false;
      read = true;
    }
  }
  return read;
}

}  // namespace

std::vector<ValueId> differentiated_inputs(const Program& program) {
  std::vector<ValueId> inputs;
  const Graph& training = program.graph(Task::train);
  for (const ValueId id : training.with_role(Role::input)) {
    const Value& value = training.value(id);
    const bool given = std::any_of(program.cotangents.begin(), program.cotangents.end(),
                                   [&](const auto& pair) { return pair.second == value.name; });
    if (!given && value.type.dtype == DType::f32 && !is_only_a_mask(training, id)) inputs.push_back(id);
  }
  return inputs;
}

std::vector<std::string> OptimizerSpec::moments() const {
  if (kind == "adam" || kind == "adamw" || kind == "lazy_adam") return {"m", "v"};
  if (kind == "rmsprop") return {"square"};
  if (kind == "sgd") return momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"};
  throw GraphError(fmt::format("unknown optimizer '{}'; known are sgd, rmsprop, adam, adamw, lazy_adam",
                               kind.substr(0, 40)));
}

std::vector<std::string> OptimizerSpec::constants() const {
  std::vector<std::string> names{"weight_decay"};
  if (kind == "sgd") names.emplace_back("momentum");
  if (kind == "rmsprop") names.emplace_back("decay");
  if (kind == "adam" || kind == "adamw" || kind == "lazy_adam") names.insert(names.end(), {"beta1", "beta2"});
  if (kind != "sgd") names.emplace_back("epsilon");
  if (clip_norm > 0) names.emplace_back("clip_norm");
  return names;
}

void check_optimizer(const OptimizerSpec& optimizer) {
  optimizer.moments();
  const auto check = [&](std::string_view name, double value, double highest) {
    if (std::isfinite(value) && value >= 0 && value < highest) return;
    throw GraphError(fmt::format("[{}] {} is {}, not in [0, {})", optimizer.kind, name, value, highest));
  };
  check("momentum", optimizer.momentum, 1);
  check("decay", optimizer.decay, 1);
  check("beta1", optimizer.beta1, 1);
  check("beta2", optimizer.beta2, 1);
  check("epsilon", optimizer.epsilon, 1);
  check("weight_decay", optimizer.weight_decay, 1e6);
  check("clip_norm", optimizer.clip_norm, 1e6);
}

namespace {

// The graphs of task decode have values of the network only, and agree on what they keep from step to step.
void check_decoding(const Program& program) {
  const Decoding& decoding = *program.decoding;
  const auto reject = [](const Graph& graph, std::string_view name, std::string_view what) {
    throw GraphError(fmt::format("graph '{}': '{}' {}", graph.name(), name, what));
  };
  const auto has = [](const Graph& graph, const Value& value) {
    const ValueId other = graph.find(value.name);
    return other != none && graph.value(other).type == value.type && graph.value(other).role == value.role;
  };
  const auto within = [&](const Graph& graph, const Graph& in, Role role, std::string_view what) {
    for (const ValueId id : graph.with_role(role))
      if (!has(in, graph.value(id))) reject(graph, graph.value(id).name, what);
  };
  const ValueId inputs = program.inference.find("inputs");
  const Shape tokens = inputs == none ? Shape{} : program.inference.value(inputs).type.shape;
  if (tokens.size() != 2 || decoding.prompt < 1 || decoding.prompt >= tokens[1]) {
    throw GraphError(fmt::format("graph '{}': a prompt of {} tokens does not fit samples {}",
                                 program.inference.name(), decoding.prompt, to_string(tokens)));
  }
  for (const Graph* graph : {&decoding.prefill, &decoding.step}) {
    const Graph& other = graph == &decoding.step ? decoding.prefill : decoding.step;
    within(*graph, program.inference, Role::parameter, "is not a parameter of the network");
    within(program.inference, *graph, Role::input, "is missing in a graph of task decode");
    within(*graph, program.inference, Role::input, "is not an input of the network");
    within(*graph, other, Role::cache, "differs in the other graph of task decode");
    for (const Role role : {Role::state, Role::mask, Role::label})
      for (const ValueId id : graph->with_role(role)) reject(*graph, graph->value(id).name, "is not allowed");
    if (graph->with_role(Role::position).size() != 1) reject(*graph, "position", "must be there once");
    within(*graph, other, Role::position, "differs in the other graph of task decode");
    const Value& logits = graph->value(graph->output("logits"));
    if (logits.type.shape.size() != 3 || logits.type.shape[0] != tokens[0] || logits.type.shape[1] != 1)
      reject(*graph, logits.name, "must be (batch, 1, classes)");
  }
}

// The inputs of a network have a row for each sample, and so have its outputs.
void check_rows(const Graph& graph) {
  const std::vector<ValueId> inputs = graph.with_role(Role::input);
  if (inputs.empty()) throw GraphError(fmt::format("graph '{}' has no input", graph.name()));
  if (graph.outputs().empty()) throw GraphError(fmt::format("graph '{}' has no output", graph.name()));
  const std::int64_t batch = feed(graph, graph.value(inputs.front()).name, Role::input);
  const auto check = [&](const Value& value) {
    if (value.type.shape.empty() || value.type.shape.front() != batch)
      throw GraphError(fmt::format("graph '{}': '{}' {} must have a row for each of {} samples", graph.name(),
                                   value.name, to_string(value.type), batch));
  };
  for (const ValueId id : inputs) check(graph.value(id));
  for (const Graph::Output& output : graph.outputs()) check(graph.value(output.value));
}

void check_segments(const Program& program) {
  const auto count =
      program.training ? static_cast<std::int64_t>(program.training->nodes().size()) : std::int64_t{0};
  std::int64_t next = 0;
  for (const Segment& segment : program.segments) {
    if (segment.begin < next || segment.end <= segment.begin || segment.end > count) {
      throw GraphError(fmt::format(
          "graph '{}': the segment of nodes {} to {} is empty, overlaps another one or ends after the {} nodes",
          program.name(), segment.begin, segment.end, count));
    }
    next = segment.end;
  }
}

}  // namespace

void check_program(const Program& program) {
  check_segments(program);
  if (program.is_op()) return check_op(program);
  if (!program.cotangents.empty())
    throw GraphError(
        fmt::format("graph '{}': a network has cotangents, which only a single op has", program.name()));
  const auto same = [](const Graph& from, const Graph& in) {
    for (const Role role : {Role::input, Role::parameter, Role::state}) {
      for (const ValueId id : from.with_role(role)) {
        const Value& value = from.value(id);
        const ValueId other = in.find(value.name);
        if (other != none && in.value(other).type == value.type && in.value(other).role == role) continue;
        throw GraphError(fmt::format("graph '{}': {} '{}' {} differs in the other graph of the program",
                                     from.name(), to_string(role), value.name, to_string(value.type)));
      }
    }
  };
  if (program.decoding) check_decoding(program);
  check_rows(program.inference);
  if (program.training.has_value() != program.optimizer.has_value())
    throw GraphError(fmt::format("graph '{}': a network has a training graph and an optimizer, or neither",
                                 program.name()));
  if (!program.training) return;
  const Graph& training = *program.training;
  same(training, program.inference);
  same(program.inference, training);
  feed(training, "labels", Role::label);
  const Shape& labels = training.value(training.find("labels")).type.shape;
  const Shape& logits = training.value(training.output("logits")).type.shape;
  if (logits.size() < 2)
    throw GraphError(
        fmt::format("graph '{}': logits {} must be (batch, classes), or with positions between them",
                    training.name(), to_string(logits)));
  if (labels != Shape(logits.begin(), logits.end() - 1))
    throw GraphError(fmt::format("graph '{}': labels and logits differ in the batch", training.name()));
  const Value& loss = training.value(training.output("loss"));
  if (!loss.type.shape.empty())
    throw GraphError(
        fmt::format("graph '{}': the loss {} must be a scalar", training.name(), to_string(loss.type)));
}

}  // namespace assay
