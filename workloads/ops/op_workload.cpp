#include "workloads/ops/op_workload.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 31;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::vector<std::string> names_of(const OpWorkload& op) {
  std::vector<std::string> names;
  for (const Dimension& dimension : op.dimensions) names.push_back(dimension.name);
  return names;
}

[[noreturn]] void refuse(const OpWorkload& op, std::string_view size, std::string_view what) {
  throw GraphError(fmt::format("[{}] got the size '{}': {}; one is '{}', of the dimensions {}", op.name,
                               size.substr(0, 80), what, op.default_size, fmt::join(names_of(op), " ")));
}

}  // namespace

Dimensions OpWorkload::parse(std::string_view size) const {
  Dimensions given;
  std::size_t i = 0;
  while (i < size.size()) {
    const std::size_t begin = i;
    while (i < size.size() && is_letter(size[i])) ++i;
    std::string label(size.substr(begin, i - begin));
    if (begin == 0 && label.empty()) label = dimensions.front().name;
    const std::size_t digits = i;
    while (i < size.size() && is_digit(size[i])) ++i;
    std::int64_t value = 0;
    const auto parsed = std::from_chars(size.data() + digits, size.data() + i, value);
    if (digits == i) refuse(*this, size, "a number is missing or is not made of digits");
    if (parsed.ec != std::errc() || value > most)
      refuse(*this, size, fmt::format("'{}' is too large", label));
    bool known = false;
    for (const Dimension& dimension : dimensions) {
      if (dimension.name != label) continue;
      known = true;
      if (value < dimension.least)
        refuse(*this, size, fmt::format("'{}' is below {}", label, dimension.least));
    }
    if (!known) refuse(*this, size, fmt::format("'{}' is not a dimension", label));
    if (!given.emplace(label, value).second) refuse(*this, size, fmt::format("'{}' is given twice", label));
  }
  if (given.empty()) refuse(*this, size, "it is empty");
  Dimensions all;
  for (const Dimension& dimension : dimensions) {
    const auto found = given.find(dimension.name);
    if (found != given.end()) {
      all[dimension.name] = found->second;
    } else if (dimension.fallback > 0 || dimension.like.empty()) {
      if (dimension.fallback < dimension.least)
        refuse(*this, size, fmt::format("'{}' is not given", dimension.name));
      all[dimension.name] = dimension.fallback;
    } else {
      all[dimension.name] = all.find(dimension.like)->second;
    }
  }
  return all;
}

std::string OpWorkload::canonical(std::string_view size) const {
  const Dimensions all = parse(size);
  std::string text;
  for (const Dimension& dimension : dimensions) {
    const std::int64_t value = all.find(dimension.name)->second;
    const bool usual =
        dimension.like.empty() ? value == dimension.fallback : value == all.find(dimension.like)->second;
    if (&dimension != &dimensions.front() && usual) continue;
    text += fmt::format("{}{}", dimension.name, value);
  }
  return text;
}

Program OpWorkload::program(std::string_view size) const {
  const Dimensions all = parse(size);
  Program program{.training = {}, .inference = Graph(name), .kind = ProgramKind::op};
  OperandBuilder inference(program.inference, false, false);
  build(inference, all);
  if (differentiable) {
    OperandBuilder training(program.training.emplace(name), true, true);
    build(training, all);
    program.cotangents = training.cotangents();
  }
  check_program(program);
  return program;
}

ValueId OperandBuilder::input(std::string name, Shape shape, std::string fill, DType dtype) {
  return graph_.add_value(std::move(name), {dtype, std::move(shape)}, Role::input, std::move(fill));
}

ValueId OperandBuilder::state(std::string name, Shape shape, std::string initializer) {
  return builder_.state(std::move(name), std::move(shape), std::move(initializer));
}

ValueId OperandBuilder::mask(std::string name, Shape shape) {
  return graph_.add_value(std::move(name), {DType::u8, std::move(shape)}, Role::mask);
}

void OperandBuilder::result(const std::string& name, ValueId value) {
  graph_.add_output(name, value);
  if (!differentiated_) return;
  const std::string gradient = "d" + name;
  graph_.add_value(gradient, graph_.value(value).type, Role::input, "signal");
  cotangents_[name] = gradient;
}

bool is_op_workload(std::string_view name) { return name.starts_with("op/"); }

}  // namespace assay
