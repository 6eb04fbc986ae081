#include "tests/ops/op_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"

namespace assay::ops {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

double integer(std::uint64_t seed) {
  static constexpr double values[] = {-2, -1, 1, 2, -1, 1, 2, 0};
  return values[mix(seed) & 7];
}

Role role_of(const std::string& operand) {
  if (operand == "labels") return Role::label;
  if (operand == "schedule") return Role::schedule;
  if (operand == "seed") return Role::seed;
  if (operand.ends_with("weight") || operand == "bias" || operand == "parameter") return Role::parameter;
  if (operand == "m" || operand == "v" || operand == "momentum" || operand == "square" ||
      operand.starts_with("running")) {
    return Role::state;
  }
  return Role::input;
}

DType dtype_of(Kind kind, const Precision& precision) {
  if (kind == Kind::index) return DType::i32;
  return kind == Kind::master ? precision.master : precision.storage;
}

std::int64_t table_rows(const OpCase& row) {
  return row.attributes.has("rows") ? row.attributes.get<std::int64_t>("rows")
                                    : row.operands[1].shape.front();
}

// A batch norm whose weight and bias are zero: only its residual is left.
ValueId mask_of(GraphBuilder& builder, ValueId image, const Precision& precision) {
  const std::int64_t channels = builder.graph().value(image).type.shape[1];
  const auto constant = [&](double value, const char* name) {
    const std::string dtype(to_string(precision.master));
    return builder.apply("constant", {}, {{"value", value}, {"shape", Shape{channels}}, {"dtype", dtype}},
                         name)[0];
  };
  const ValueId zero = constant(0, "zero"), one = constant(1, "one");
  const Attributes attributes{
      {"training", true}, {"epsilon", 1e-3}, {"momentum", 0.9}, {"activation", std::string("relu")}};
  return builder.apply("batch_norm", {image, zero, zero, zero, one, image}, attributes, "forward",
                       {true, true, true, true, true, true})[5];
}

}  // namespace

Graph graph_of(const OpCase& row, const Precision& precision) {
  Graph graph(row.id());
  GraphBuilder builder(graph);
  const Op& op = find_op(row.op);
  const std::vector<Operand> operands = op.operands();
  std::vector<ValueId> inputs, attended;
  for (std::size_t i = 0; i < row.operands.size(); ++i) {
    const OpCase::Operand& given = row.operands[i];
    const Operand& operand = operand_at(op, operands, i);
    if (given.fill == Fill::absent || given.fill == Fill::bucket) {
      inputs.push_back(none);
      continue;
    }
    if (given.fill == Fill::same) {
      inputs.push_back(inputs[0]);
      continue;
    }
    if (given.fill == Fill::attended) {
      if (attended.empty())
        attended = builder.apply("attention", {inputs[0], inputs[1], inputs[2], inputs[3]}, row.attributes,
                                 "forward");
      inputs.push_back(attended[operand.name == "y" ? 0 : 1]);
      continue;
    }
    const bool argmax = given.fill == Fill::argmax, reserve = given.fill == Fill::reserve;
    const bool kept = given.fill == Fill::kept, above = given.fill == Fill::above;
    const Kind kind = argmax || above ? Kind::storage : reserve ? Kind::master : operand.kind;
    const DType dtype = kept ? DType::u8 : dtype_of(kind, precision);
    const Role role = argmax || reserve || above ? Role::input : kept ? Role::mask : role_of(operand.name);
    ValueId value = graph.add_value(fmt::format("operand{}", i), {dtype, given.shape}, role);
    if (argmax) {
      Attributes attributes = row.attributes;
      attributes.erase("size");
      value = builder.apply("max_pool", {value}, attributes, "pool")[1];
    }
    if (above) value = mask_of(builder, value, precision);
    if (reserve)
      value = builder.apply("lstm", {inputs[0], inputs[1], inputs[2], value}, row.attributes, "forward")[1];
    inputs.push_back(value);
  }
  if (!row.operands.empty() && row.operands.front().fill == Fill::bucket) {
    const NodeId start =
        graph.add_node(find_op("all_reduce_start"), "start", std::span(inputs).subspan(1), {});
    inputs[0] = graph.node(start).outputs[0];
  }
  Attributes attributes = row.attributes;
  const bool typed = attributes.has("dtype") || row.op == "padding_mask" || row.op == "cache_mask";
  if (precision.master == DType::f64 && typed) attributes.set("dtype", std::string("f64"));
  std::vector<bool> wanted;
  if (row.op == "sgd" && inputs.back() == none) wanted = {true, false};
  if (row.op == "batch_norm_gradient")
    wanted = {true, true, true, true};  // also the one that only fusion adds
  NodeId node = graph.add_node(op, "node", inputs, attributes, wanted);
  if (row.op == "all_reduce_start") {  // its only result is opaque
    inputs.insert(inputs.begin(), graph.node(node).outputs[0]);
    node = graph.add_node(find_op("all_reduce_wait"), "wait", inputs);
  }
  for (std::size_t o = 0; o < graph.node(node).outputs.size(); ++o) {
    const ValueId value = graph.node(node).outputs[o];
    if (value != none && !graph.value(value).opaque) graph.add_output(fmt::format("result{}", o), value);
  }
  return graph;
}

std::vector<double> values_of(const OpCase& row, std::size_t operand) {
  const OpCase::Operand& given = row.operands[operand];
  std::vector<double> values(static_cast<std::size_t>(element_count(given.shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t seed = operand * 1000003 + i + 1;
    switch (given.fill) {
      case Fill::integers:
        values[i] = integer(seed);
        break;
      case Fill::ramp:
      case Fill::reserve:
      case Fill::argmax:
      case Fill::above:
        // 37 is odd: 64 neighbours take 64 different values.
        values[i] = (static_cast<double>((i * 37 + operand * 11) % 64) - 31.5) / 16;
        break;
      case Fill::small: {
        const double step = static_cast<double>(1 + mix(seed) % 3) / 8;
        values[i] = mix(seed) >> 63 == 0 ? step : -step;
        break;
      }
      case Fill::wide:
        values[i] = (static_cast<double>((i * 37 + operand * 11) % 64) - 31.5) * 3;
        break;
      case Fill::far:
        values[i] = 512 + 4 * static_cast<double>(mix(seed) % 4);
        break;
      case Fill::hiding: {
        const std::size_t row_of = i / static_cast<std::size_t>(given.shape.back());
        const bool hidden = row_of % 3 == 1 || mix(seed) % 4 == 0;
        values[i] = hidden ? -std::numeric_limits<double>::infinity()
                           : (static_cast<double>((i * 37 + operand * 11) % 64) - 31.5) / 16;
        break;
      }
      case Fill::tokens:
        values[i] = static_cast<double>(mix(seed) % 4);
        break;
      case Fill::not_a_number:
        values[i] = i % 3 == 0 ? std::numeric_limits<double>::quiet_NaN() : integer(seed);
        break;
      case Fill::top:
        values[i] = 2;
        break;
      case Fill::positive:
        values[i] = 0.25 + static_cast<double>(mix(seed) % 13) / 8;
        break;
      case Fill::labels:
      case Fill::labels_or_ignored:
        values[i] = static_cast<double>(mix(seed) % static_cast<std::uint64_t>(row.operands[0].shape.back()));
        if (given.fill == Fill::labels_or_ignored && mix(seed + 77) % 4 == 0) values[i] = -100;
        break;
      case Fill::touched: {
        const auto next = static_cast<std::int64_t>(2 * i);
        values[i] = next < table_rows(row) ? static_cast<double>(next) : -1;
        break;
      }
      case Fill::indices: {
        const std::int64_t rows = table_rows(row);
        values[i] =
            mix(seed) % 9 == 0 ? -1 : static_cast<double>(mix(seed + 77) % static_cast<std::uint64_t>(rows));
        break;
      }
      case Fill::softmax:
        values[i] = static_cast<double>(1 + i % static_cast<std::size_t>(given.shape.back()));
        break;
      case Fill::schedule:
        values[i] = i == 0 ? 0.01 : 3;
        break;
      case Fill::kept:
        values[i] = mix(seed) % 4 != 0 ? 1 : 0;
        break;
      case Fill::attended:
      case Fill::same:
      case Fill::zero:
      case Fill::no_seed:
      case Fill::bucket:
      case Fill::absent:
        break;
    }
  }
  if (given.fill == Fill::softmax) {
    const auto classes = static_cast<double>(given.shape.back());
    for (double& value : values) value /= classes * (classes + 1) / 2;
  }
  return values;
}

}  // namespace assay::ops
