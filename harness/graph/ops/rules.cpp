#include "harness/graph/ops/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/core/text.hpp"

namespace assay {
namespace {

// Far larger than any real window, and small enough that sums cannot overflow.
constexpr std::int64_t max_window = std::int64_t{1} << 24;

// `name`: "rows" or "columns"; in: their number.
void check_axis(const Operands& operands, const WindowAxis& axis, std::string_view name, std::int64_t in) {
  const auto check = [&](bool holds, std::string_view what) {
    if (holds) return;
    operands.reject(fmt::format("{}: kernel {}, stride {}, padding {} and {}, dilation {}: {}", name,
                                axis.kernel, axis.stride, axis.before, axis.after, axis.dilation, what));
  };
  check(axis.kernel >= 1, "the kernel must be at least 1");
  check(axis.kernel <= max_window, "the kernel is too large");
  check(axis.stride >= 1 && axis.stride <= max_window, "the stride must be at least 1");
  check(axis.dilation >= 1 && axis.dilation <= max_window, "the dilation must be at least 1");
  check(axis.before >= 0 && axis.after >= 0, "the padding must not be negative");
  check(axis.before < axis.extent() && axis.after < axis.extent(),
        axis.dilation == 1 ? "the padding must be less than the kernel"
                           : "the padding must be less than the extent of the kernel");
  check(in + axis.before + axis.after >= axis.extent(), "the kernel is larger than the padded image");
}

SlidingWindow checked(const Operands& operands, const SlidingWindow& window, std::int64_t h, std::int64_t w) {
  check_axis(operands, window.rows, "rows", h);
  check_axis(operands, window.columns, "columns", w);
  return window;
}

}  // namespace

void Operands::reject(std::string_view what) const {
  const std::vector<Operand> operands = op_.operands();
  std::string seen;
  for (std::size_t i = 0; i < types_.size(); ++i) {
    if (!present_[i]) continue;
    // A long optimizer node would fill the screen.
    if (i >= operands.size() + 4) {
      seen += ", ...";
      break;
    }
    seen += fmt::format("{}{} {}", seen.empty() ? "" : ", ", operand_at(op_, operands, i).name,
                        to_string(types_[i]));
  }
  throw GraphError(fmt::format("[{}] got {}: {}", op_.name(), seen.empty() ? "no operands" : seen, what));
}

void Operands::rank(std::size_t i, std::size_t dimensions) const {
  if (shape(i).size() == dimensions) return;
  reject(fmt::format("{} must have {}", operand_at(op_, op_.operands(), i).name,
                     plural(dimensions, "dimension")));
}

void Operands::floating(std::size_t i) const {
  if (is_floating(dtype(i))) return;
  reject(fmt::format("{} must be floating-point", operand_at(op_, op_.operands(), i).name));
}

void Operands::same_dtype(std::size_t i, std::size_t as) const {
  if (dtype(i) == dtype(as)) return;
  const std::vector<Operand> operands = op_.operands();
  reject(fmt::format("{} and {} must have the same element type", operand_at(op_, operands, i).name,
                     operand_at(op_, operands, as).name));
}

void Operands::same_type(std::size_t i, std::size_t as) const {
  if (type(i) == type(as)) return;
  const std::vector<Operand> operands = op_.operands();
  reject(fmt::format("{} and {} must have the same shape and element type", operand_at(op_, operands, i).name,
                     operand_at(op_, operands, as).name));
}

void Operands::accumulates(std::size_t i, std::size_t of) const {
  if (dtype(i) == accumulation(dtype(of))) return;
  const std::vector<Operand> operands = op_.operands();
  reject(fmt::format("{} must be {} for {} {}", operand_at(op_, operands, i).name,
                     to_string(accumulation(dtype(of))), to_string(dtype(of)),
                     operand_at(op_, operands, of).name));
}

void Operands::shaped(std::size_t i, const Shape& wanted) const {
  if (shape(i) == wanted) return;
  reject(fmt::format("{} must be {}", operand_at(op_, op_.operands(), i).name, to_string(wanted)));
}

void Operands::mask(std::size_t i, const Shape& dx) const {
  if (!has(i)) return;
  shaped(i, dx);
  same_dtype(i, 0);
}

SlidingWindow checked_pool_window(const Operands& operands, const Attributes& attributes, std::int64_t h,
                                  std::int64_t w) {
  return checked(operands, pool_window(attributes), h, w);
}

SlidingWindow weight_window(const Operands& operands, const Attributes& attributes, std::int64_t kernel_h,
                            std::int64_t kernel_w, std::int64_t h, std::int64_t w) {
  return checked(operands, sliding_window(attributes, kernel_h, kernel_w), h, w);
}

std::vector<std::int64_t> size_attribute(const Operands& operands, const Attributes& attributes,
                                         std::string_view name, std::size_t count) {
  const auto& sizes = attributes.get<std::vector<std::int64_t>>(name);
  if (sizes.size() != count)
    operands.reject(fmt::format("attribute '{}' must have {}", name, plural(count, "number")));
  check_shape(sizes);
  return sizes;
}

std::vector<std::int64_t> axes_attribute(const Operands& operands, const Attributes& attributes,
                                         std::size_t rank) {
  const auto& axes = attributes.get<std::vector<std::int64_t>>("axes");
  if (axes.empty()) operands.reject("attribute 'axes' is empty");
  std::int64_t lowest = 0;
  for (const std::int64_t axis : axes) {
    if (axis < lowest || axis >= static_cast<std::int64_t>(rank)) {
      operands.reject(fmt::format("attribute 'axes' has {}; it must have dimensions from 0 to {}, ascending",
                                  axis, static_cast<std::int64_t>(rank) - 1));
    }
    lowest = axis + 1;
  }
  return axes;
}

DType mask_dtype(const Operands& operands, const Attributes& attributes) {
  const DType dtype = parse_dtype(attributes.get_or("dtype", std::string("f32")));
  operands.require(dtype == DType::f32 || dtype == DType::f64, "attribute 'dtype' must be f32 or f64");
  return dtype;
}

std::size_t axis_attribute(const Operands& operands, const Attributes& attributes, std::size_t rank) {
  const std::int64_t axis = attributes.get<std::int64_t>("axis");
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) {
    operands.reject(
        fmt::format("attribute 'axis' is {}, but there are {} dimensions, counted from 0", axis, rank));
  }
  return static_cast<std::size_t>(axis);
}

Shape without(const Shape& shape, std::span<const std::int64_t> axes) {
  Shape rest;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    bool dropped = false;
    for (const std::int64_t axis : axes) dropped = dropped || axis == static_cast<std::int64_t>(d);
    if (!dropped) rest.push_back(shape[d]);
  }
  return rest;
}

std::vector<std::int64_t> index_without(const Shape& shape, std::span<const std::int64_t> axes) {
  std::vector<std::int64_t> steps(shape.size());  // in the index of the result
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end()) continue;
    steps[d] = step;
    step *= shape[d];
  }
  std::vector<std::int64_t> indices(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) indices[i] += rest % shape[d] * steps[d];
  }
  return indices;
}

Shape leading(const Shape& shape) { return {shape.begin(), shape.end() - 1}; }

double bounded_attribute(const Operands& operands, const Attributes& attributes, std::string_view name,
                         double lowest, double highest) {
  const double value = attributes.number(name);
  if (!std::isfinite(value) || value < lowest || value >= highest) {
    operands.reject(fmt::format("attribute '{}' is {}, not in [{}, {})", name, value, lowest, highest));
  }
  return value;
}

void check_activation(const Operands& operands, const Attributes& attributes,
                      std::initializer_list<std::string_view> known) {
  if (!attributes.has("activation")) return;
  const auto& activation = attributes.get<std::string>("activation");
  if (std::ranges::find(known, activation) == known.end()) {
    operands.reject(fmt::format("unknown activation '{}'; known is {}", activation.substr(0, 40),
                                fmt::join(known, ", ")));
  }
}

void reject_fused_gradient(const Op& op, const Node& node) {
  if (!node.attributes.has("activation")) return;
  throw GraphError(fmt::format(
      "[{}] has no gradient with a fused activation: differentiate first (node '{}')", op.name(), node.name));
}

}  // namespace assay
