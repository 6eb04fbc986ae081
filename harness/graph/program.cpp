#include "harness/graph/program.hpp"

#include <fmt/format.h>

#include <cmath>

#include "harness/graph/error.hpp"

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

}  // namespace

std::vector<std::string> OptimizerSpec::moments() const {
  if (kind == "adam" || kind == "lazy_adam") return {"m", "v"};
  if (kind == "rmsprop") return {"square"};
  if (kind == "sgd") return momentum == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"};
  throw GraphError(
      fmt::format("'{}' is no optimizer; known are sgd, rmsprop, adam, lazy_adam", kind.substr(0, 40)));
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
}

void check_program(const Program& program) {
  const auto same = [](const Graph& from, const Graph& in) {
    for (const Role role : {Role::input, Role::parameter, Role::state}) {
      for (const ValueId id : from.with_role(role)) {
        const Value& value = from.value(id);
        const ValueId other = in.find(value.name);
        if (other != none && in.value(other).type == value.type && in.value(other).role == role) continue;
        throw GraphError(
            fmt::format("graph '{}': {} '{}' {} is not the same in the other graph of the program",
                        from.name(), to_string(role), value.name, to_string(value.type)));
      }
    }
  };
  same(program.training, program.inference);
  same(program.inference, program.training);
  const auto logits = [](const Graph& graph) {
    const Value& value = graph.value(graph.output("logits"));
    const std::int64_t batch = feed(graph, "inputs", Role::input);
    if (value.type.shape.size() != 2 || value.type.shape[0] != batch) {
      throw GraphError(fmt::format("graph '{}': logits {} must be ({}, classes)", graph.name(),
                                   to_string(value.type), batch));
    }
    return batch;
  };
  logits(program.inference);
  if (feed(program.training, "labels", Role::label) != logits(program.training)) {
    throw GraphError(
        fmt::format("graph '{}': labels and logits differ in the batch", program.training.name()));
  }
  const Value& loss = program.training.value(program.training.output("loss"));
  if (!loss.type.shape.empty()) {
    throw GraphError(fmt::format("graph '{}': the loss {} must be a scalar", program.training.name(),
                                 to_string(loss.type)));
  }
}

}  // namespace assay
