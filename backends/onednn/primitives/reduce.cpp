// Reductions, dot and normalise: oneDNN's reduction and matmul, and elementwise primitives.
#include <limits>

#include "backends/onednn/primitives/composition.hpp"
#include "backends/onednn/primitives/ops.hpp"

namespace assay::onednn::primitives {
namespace {

using dnnl::algorithm;

std::span<const std::int64_t> axes_of(const Request& request) {
  return request.node.attributes.get<std::vector<std::int64_t>>("axes");
}
std::string kind_of(const Request& request) { return request.node.attributes.get<std::string>("kind"); }

Lowered as_pool(const Request& request) {
  return onednn::find_entry(request.node.op->name())->lower(request);
}

Lowered lower_reduce(const Request& request) {
  const TensorType& x = request.inputs[0];
  if (is_global_pool(request.node, x)) return as_pool(request);
  const std::string kind = kind_of(request);
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  steps.reduce(kind == "max"    ? algorithm::reduction_max
               : kind == "mean" ? algorithm::reduction_mean
                                : algorithm::reduction_sum,
               steps.input(0, row_major(x)), steps.output(0, with_ones(x, axes_of(request))));
  steps.finish(lowered);
  return lowered;
}

// Operands dy, x and y: the elements that equal the maximum share dy.
void share_maximum(const Request& request, Composition& steps, const Desc& kept) {
  const TensorType wide{DType::f32, request.outputs[0].shape};
  const Term is_maximum = steps.temporary(row_major(wide));
  const Term y = steps.temporary(row_major(wide));
  steps.repeat(steps.input(2, kept), y);
  steps.binary(algorithm::binary_eq, steps.widened(steps.input(1, row_major(request.inputs[1]))), y,
               is_maximum);
  const Term count = steps.temporary(with_ones(wide, axes_of(request)));
  steps.reduce(algorithm::reduction_sum, is_maximum, count);
  const Term share = steps.temporary(count.desc);
  steps.binary(algorithm::binary_div, steps.widened(steps.input(0, kept)), count, share);
  steps.binary(algorithm::binary_mul, is_maximum, share, steps.output(0, row_major(request.outputs[0])));
}

Lowered lower_reduce_gradient(const Request& request) {
  const TensorType& dx = request.outputs[0];
  if (is_global_pool(request.node, dx)) return as_pool(request);
  const std::string kind = kind_of(request);
  const Desc kept = with_ones(dx, axes_of(request));
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  if (kind == "max") {
    share_maximum(request, steps, kept);
  } else {
    Term dy = steps.input(0, kept);
    if (kind == "mean") {
      const auto share = static_cast<float>(static_cast<double>(request.inputs[0].elements()) /
                                            static_cast<double>(dx.elements()));
      const Term divided = steps.temporary(kept);
      steps.eltwise(algorithm::eltwise_linear, dy, divided, share);
      dy = divided;
    }
    steps.repeat(dy, steps.output(0, row_major(dx)));
  }
  steps.finish(lowered);
  return lowered;
}

// A row times a column.
Lowered lower_dot(const Request& request) {
  const std::int64_t n = request.inputs[0].elements();
  const DType dtype = request.inputs[0].dtype;
  const Desc row = row_major({dtype, {1, n}}), column = row_major({dtype, {n, 1}}),
             one = row_major({request.outputs[0].dtype, {1, 1}});
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const auto chosen =
      ASSAY_ONEDNN(dnnl::matmul::primitive_desc(steps.engine(), row, column, one, attributes()));
  steps.run<dnnl::matmul>(chosen, {{DNNL_ARG_SRC, steps.input(0, row)},
                                   {DNNL_ARG_WEIGHTS, steps.input(1, column)},
                                   {DNNL_ARG_DST, steps.output(0, one)}});
  steps.finish(lowered);
  return lowered;
}

constexpr float everything = std::numeric_limits<float>::max();

// y = x / max(norm, epsilon).
Lowered lower_normalise(const Request& request) {
  const TensorType& x = request.inputs[0];
  const TensorType wide{DType::f32, x.shape};
  const auto epsilon = static_cast<float>(request.node.attributes.number("epsilon"));
  const Desc kept = with_ones(wide, axes_of(request));
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term from = steps.widened(steps.input(0, row_major(x)));
  const Term squares = steps.temporary(row_major(wide)), divisor = steps.temporary(kept);
  const Term norm = request.has_output(1) ? steps.output(1, kept) : steps.temporary(kept);
  steps.eltwise(algorithm::eltwise_square, from, squares);
  steps.reduce(algorithm::reduction_sum, squares, norm);
  steps.eltwise(algorithm::eltwise_sqrt, norm, norm);
  steps.eltwise(algorithm::eltwise_clip, norm, divisor, epsilon, everything);
  steps.binary(algorithm::binary_div, from, divisor, steps.output(0, row_major(x)));
  steps.finish(lowered);
  return lowered;
}

// Operands y, norm, dy: dx = (dy - y * s) / max(norm, epsilon), s the sum of dy * y, or 0 where norm is not
// above epsilon.
Lowered lower_normalise_gradient(const Request& request) {
  const TensorType& x = request.inputs[0];
  const TensorType wide{DType::f32, x.shape};
  const auto epsilon = static_cast<float>(request.node.attributes.number("epsilon"));
  const Desc kept = with_ones(wide, axes_of(request));
  Lowered lowered = row_major_draft(request);
  Composition steps(request);
  const Term y = steps.widened(steps.input(0, row_major(x)));
  const Term dy = steps.widened(steps.input(2, row_major(x)));
  const Term norm = steps.input(1, kept);
  const Term products = steps.temporary(row_major(wide));
  const Term s = steps.temporary(kept), gate = steps.temporary(kept), divisor = steps.temporary(kept);
  steps.binary(algorithm::binary_mul, dy, y, products);
  steps.reduce(algorithm::reduction_sum, products, s);
  steps.eltwise(algorithm::eltwise_clip, norm, divisor, -everything, epsilon);
  steps.binary(algorithm::binary_gt, norm, divisor, gate);
  steps.binary(algorithm::binary_mul, s, gate, s);
  steps.binary(algorithm::binary_mul, y, s, products);
  steps.binary(algorithm::binary_sub, dy, products, products);
  steps.eltwise(algorithm::eltwise_clip, norm, divisor, epsilon, everything);
  steps.binary(algorithm::binary_div, products, divisor, steps.output(0, row_major(x)));
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> reduce_ops() {
  static constexpr std::array entries{OpEntry{"reduce", lower_reduce},
                                      OpEntry{"reduce_gradient", lower_reduce_gradient},
                                      OpEntry{"dot", lower_dot}, OpEntry{"normalise", lower_normalise},
                                      OpEntry{"normalise_gradient", lower_normalise_gradient}};
  return entries;
}

}  // namespace assay::onednn::primitives
