// Shared by the shape rules of the ops: access to operands by name, and errors that show them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/graph/op.hpp"
#include "harness/graph/sliding_window.hpp"

namespace assay {

// The operands of one node for its shape rule. Borrows everything.
class Operands {
 public:
  Operands(const Op& op, std::span<const TensorType> types, const std::vector<bool>& present)
      : op_(op), types_(types), present_(present) {}

  bool has(std::size_t i) const { return present_[i]; }
  std::span<const TensorType> types() const { return types_; }
  const TensorType& type(std::size_t i) const { return types_[i]; }
  const Shape& shape(std::size_t i) const { return types_[i].shape; }
  DType dtype(std::size_t i) const { return types_[i].dtype; }

  // The following throw GraphError "[op] got x f32 (2, 3), weight f32 (4, 5): what".
  void require(bool holds, std::string_view what) const {
    if (!holds) reject(what);
  }
  [[noreturn]] void reject(std::string_view what) const;
  void rank(std::size_t i, std::size_t dimensions) const;
  void floating(std::size_t i) const;
  void same_dtype(std::size_t i, std::size_t as) const;
  void same_type(std::size_t i, std::size_t as) const;
  // Operand i holds sums of products of operand `of`: f32 if that is bf16.
  void accumulates(std::size_t i, std::size_t of) const;
  void shaped(std::size_t i, const Shape& shape) const;
  // Operand i, if present, is the mask of a gradient dx: it has the shape of dx and the type of operand 0.
  void mask(std::size_t i, const Shape& dx) const;

 private:
  const Op& op_;
  std::span<const TensorType> types_;
  const std::vector<bool>& present_;
};

// Throw through `operands` unless in both dimensions 1 <= kernel, stride and dilation, 0 <= padding < extent of the
// kernel, and the window fits into (h, w).
SlidingWindow checked_pool_window(const Operands& operands, const Attributes& attributes, std::int64_t h,
                                  std::int64_t w);
SlidingWindow weight_window(const Operands& operands, const Attributes& attributes, std::int64_t kernel_h,
                            std::int64_t kernel_w, std::int64_t h, std::int64_t w);

// A list attribute of exactly `count` positive integers: a size or a shape.
std::vector<std::int64_t> size_attribute(const Operands& operands, const Attributes& attributes,
                                         std::string_view name, std::size_t count);
// The attribute "axes": dimensions of operand 0, ascending, at least one.
std::vector<std::int64_t> axes_attribute(const Operands& operands, const Attributes& attributes,
                                         std::size_t rank);
// The attribute "axis": a dimension of operand 0.
std::size_t axis_attribute(const Operands& operands, const Attributes& attributes, std::size_t rank);
// The shape without these dimensions.
Shape without(const Shape& shape, std::span<const std::int64_t> axes);
// For each element of a tensor, in row-major order, the index of its element of without(shape, axes).
std::vector<std::int64_t> index_without(const Shape& shape, std::span<const std::int64_t> axes);
// (..., D): the dimensions before the last one, which a shape must have.
Shape leading(const Shape& shape);
// A finite attribute with lowest <= value < highest.
double bounded_attribute(const Operands& operands, const Attributes& attributes, std::string_view name,
                         double lowest, double highest);
// The attribute "dtype" of a mask: f32 if it is absent, or f64.
DType mask_dtype(const Operands& operands, const Attributes& attributes);
// The attribute "activation" is absent or one of `known`.
void check_activation(const Operands& operands, const Attributes& attributes,
                      std::initializer_list<std::string_view> known = {"relu"});
// Fusion comes after differentiation; a fused op has no gradient.
void reject_fused_gradient(const Op& op, const Node& node);

// The shape rules of the two pools, and those of their gradients.

// y of a pool over x, operand 0. Throws GraphError.
TensorType infer_pool(const Operands& in, const Attributes& attributes);
// dx from dy, operand 0, whose shape must follow from the attribute size; operand `mask` is optional.
TensorType infer_pool_gradient(const Operands& in, const Attributes& attributes, std::size_t mask);
// The attributes of the gradient's node: those of the pool, and the size of x.
Attributes pool_gradient_attributes(const Graph& graph, const Node& pool);
// Elements of one window.
double window_elements(const Attributes& attributes);

}  // namespace assay
