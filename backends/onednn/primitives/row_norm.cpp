// Layer norm: oneDNN's primitive, and elementwise primitives over the rows for 1 / sqrt(variance + epsilon),
// which the graph keeps. RMS norm, which oneDNN does not have, is made of elementwise primitives and
// reductions.
#include "backends/onednn/primitives/composition.hpp"
#include "backends/onednn/primitives/ops.hpp"

namespace assay::onednn::primitives {
namespace {

using dnnl::algorithm;
using dnnl::normalization_flags;

const auto scale_and_shift = normalization_flags::use_scale | normalization_flags::use_shift;

dnnl::layer_normalization_forward::primitive_desc forward(const Request& request, const Desc& x,
                                                          float epsilon) {
  return ASSAY_ONEDNN(dnnl::layer_normalization_forward::primitive_desc(
      request.context.engine, dnnl::prop_kind::forward_training, x, x, epsilon, scale_and_shift,
      attributes()));
}

// Once for each row.
Desc rows_desc(const TensorType& x) { return row_major({DType::f32, {as_matrix(x).shape[0]}}); }

// Operands x, scale, shift; results y, mean, inverse_deviation.
Lowered lower_layer_norm(const Request& request) {
  const auto epsilon = static_cast<float>(request.node.attributes.number("epsilon"));
  const Desc x = row_major(as_matrix(request.inputs[0])), row = row_major(request.inputs[1]);
  const Desc rows = rows_desc(request.inputs[0]);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term mean = request.has_output(1) ? steps.output(1, rows) : steps.temporary(rows);
  const Term variance = steps.temporary(rows);
  steps.run<dnnl::layer_normalization_forward>(forward(request, x, epsilon),
                                               {{DNNL_ARG_SRC, steps.input(0, x)},
                                                {DNNL_ARG_SCALE, steps.input(1, row)},
                                                {DNNL_ARG_SHIFT, steps.input(2, row)},
                                                {DNNL_ARG_MEAN, mean},
                                                {DNNL_ARG_VARIANCE, variance},
                                                {DNNL_ARG_DST, steps.output(0, x)}});
  if (request.has_output(2)) {
    const Term inverse = steps.output(2, rows);
    steps.eltwise(algorithm::eltwise_linear, variance, inverse, 1, epsilon);
    steps.eltwise(algorithm::eltwise_pow, inverse, inverse, 1, -0.5F);
  }
  steps.finish(lowered);
  return lowered;
}

// Operands x, scale, dy, mean, inverse_deviation; results dx, scale_gradient, shift_gradient.
Lowered lower_layer_norm_gradient(const Request& request) {
  const Desc x = row_major(as_matrix(request.inputs[0])), row = row_major(request.inputs[1]);
  const Desc rows = rows_desc(request.inputs[0]);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  // The variance plus epsilon: the primitive is made with an epsilon of 0.
  const Term variance = steps.temporary(rows);
  steps.eltwise(algorithm::eltwise_pow, steps.input(4, rows), variance, 1, -2);
  const auto chosen = ASSAY_ONEDNN(dnnl::layer_normalization_backward::primitive_desc(
      steps.engine(), dnnl::prop_kind::backward, x, x, x, 0.0F, scale_and_shift, forward(request, x, 0),
      attributes()));
  const auto result = [&](std::size_t o) {
    return request.has_output(o) ? steps.output(o, row) : steps.temporary(row);
  };
  // The primitive counts the shift among its operands, and no gradient depends on it.
  steps.run<dnnl::layer_normalization_backward>(chosen, {{DNNL_ARG_SRC, steps.input(0, x)},
                                                         {DNNL_ARG_SCALE, steps.input(1, row)},
                                                         {DNNL_ARG_SHIFT, steps.zeros(row)},
                                                         {DNNL_ARG_DIFF_DST, steps.input(2, x)},
                                                         {DNNL_ARG_MEAN, steps.input(3, rows)},
                                                         {DNNL_ARG_VARIANCE, variance},
                                                         {DNNL_ARG_DIFF_SRC, steps.output(0, x)},
                                                         {DNNL_ARG_DIFF_SCALE, result(1)},
                                                         {DNNL_ARG_DIFF_SHIFT, result(2)}});
  steps.finish(lowered);
  return lowered;
}

// The matrix of RMS norm, a column with a number for each row, and a row with one for each column.
struct Sides {
  explicit Sides(const Request& request)
      : stored(as_matrix(request.inputs[0])),
        whole(row_major({DType::f32, stored.shape})),
        column(row_major({DType::f32, {stored.shape[0], 1}})),
        row(row_major({DType::f32, {1, stored.shape[1]}})) {}
  TensorType stored;
  Desc whole, column, row;
};

// Operands x, scale; results y, inverse_root.
Lowered lower_rms_norm(const Request& request) {
  const Sides sides(request);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term x = steps.widened(steps.input(0, row_major(sides.stored))), h = steps.temporary(sides.whole);
  const Term inverse = request.has_output(1) ? steps.output(1, sides.column) : steps.temporary(sides.column);
  steps.eltwise(algorithm::eltwise_square, x, h);
  steps.reduce(algorithm::reduction_mean, h, inverse);
  steps.eltwise(algorithm::eltwise_linear, inverse, inverse, 1,
                static_cast<float>(request.node.attributes.number("epsilon")));
  steps.eltwise(algorithm::eltwise_pow, inverse, inverse, 1, -0.5F);
  steps.binary(algorithm::binary_mul, x, inverse, h);
  steps.binary(algorithm::binary_mul, h, steps.input(1, sides.row), steps.output(0, row_major(sides.stored)));
  steps.finish(lowered);
  return lowered;
}

// Operands x, scale, dy, inverse_root; results dx, scale_gradient.
Lowered lower_rms_norm_gradient(const Request& request) {
  const Sides sides(request);
  const Desc stored = row_major(sides.stored);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term x = steps.widened(steps.input(0, stored)), dy = steps.widened(steps.input(2, stored));
  const Term inverse = steps.input(3, sides.column), h = steps.temporary(sides.whole);
  const Term g = steps.temporary(sides.whole), product = steps.temporary(sides.whole);
  const Term along = steps.temporary(sides.column);
  steps.binary(algorithm::binary_mul, x, inverse, h);
  steps.binary(algorithm::binary_mul, dy, h, product);
  steps.reduce(algorithm::reduction_sum, product, steps.output(1, sides.row));
  steps.binary(algorithm::binary_mul, dy, steps.input(1, sides.row), g);
  steps.binary(algorithm::binary_mul, g, h, product);
  steps.reduce(algorithm::reduction_mean, product, along);
  steps.binary(algorithm::binary_mul, h, along, h);
  steps.binary(algorithm::binary_sub, g, h, g);
  steps.binary(algorithm::binary_mul, g, inverse, steps.output(0, stored));
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> row_norm_ops() {
  static constexpr std::array entries{
      OpEntry{"layer_norm", lower_layer_norm}, OpEntry{"layer_norm_gradient", lower_layer_norm_gradient},
      OpEntry{"rms_norm", lower_rms_norm}, OpEntry{"rms_norm_gradient", lower_rms_norm_gradient}};
  return entries;
}

}  // namespace assay::onednn::primitives
