// Fully connected layers and matrix products.
#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/lowering.hpp"
#include "backends/cuda/own_products.hpp"

namespace assay::cuda {
namespace {

// Runs a product onto operand 3, if fusion gave the node one.
void run(Matmul& product, bool added, const Operands& at, const float* bias) {
  if (added)
    product.run_onto(at.inputs[3], at.inputs[0], at.inputs[1], bias, at.outputs[0], at.scratch);
  else
    product.run(at.inputs[0], at.inputs[1], bias, at.outputs[0], at.scratch);
}

Lowered lower_linear(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const RowsOfTensor x(request.in(0));
  MatmulSpec spec = dense_product(request, x.rows, request.in(1)[0], x.columns, false, true);
  spec.bias = request.has_input(2);
  spec.relu = request.relu();
  spec.added = request.has_input(3);
  std::shared_ptr<Matmul> product = request.context.device.matmul(spec);
  lowered.scratch_bytes = product->workspace_bytes();
  lowered.kernel = make_kernel(
      [product, added = spec.added](const Operands& at) { run(*product, added, at, at.in<float>(2)); },
      product->name());
  return lowered;
}

Lowered lower_linear_input_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const RowsOfTensor dy(request.in(0));
  MatmulSpec spec = dense_product(request, dy.rows, request.in(1)[1], dy.columns, false, false);
  spec.added = request.has_input(3);
  std::shared_ptr<Matmul> product = request.context.device.matmul(spec);
  lowered.scratch_bytes = product->workspace_bytes();
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [product, stream, added = spec.added, mask = request.has_input(2),
       type = request.outputs[0]](const Operands& at) {
        run(*product, added, at, nullptr);
        if (mask) apply_mask(stream, type.dtype, at.inputs[2], at.outputs[0], type.elements());
      },
      product->name());
  return lowered;
}

Lowered lower_linear_weight_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const RowsOfTensor x(request.in(0));
  const std::int64_t batch = x.rows, inner = x.columns, outer = request.in(1).back();
  MatmulSpec spec = dense_product(request, outer, inner, batch, true, false);
  std::shared_ptr<Matmul> product = request.context.device.matmul(spec);
  const Matrix rows = matrix_of_rows(batch, outer);
  const bool bias = request.has_output(1);
  Scratch scratch;
  const std::int64_t workspace = scratch.add(product->workspace_bytes());
  const std::int64_t partial = scratch.add(bias ? column_sum_scratch(rows) : 0);
  lowered.scratch_bytes = scratch.bytes();
  const Stream stream = request.context.device.stream();
  lowered.kernel = with_type(request.inputs[1].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          product->run(at.inputs[1], at.inputs[0], nullptr, at.outputs[0],
                       at.scratch_at<std::byte>(workspace));
          if (bias) column_sums(stream, rows, at.in<T>(1), at.out<float>(1), at.scratch_at<float>(partial));
        },
        product->name());
  });
  return lowered;
}

Lowered lower_matmul(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const bool ta = request.node.attributes.get<bool>("transpose_a");
  const bool tb = request.node.attributes.get<bool>("transpose_b");
  const Shape& y = request.out(0);
  const std::int64_t m = y[y.size() - 2], n = y.back(), k = request.in(0)[y.size() - (ta ? 2 : 1)];
  MatmulSpec spec = dense_product(request, m, n, k, ta, tb);
  spec.batch = element_count(y) / (m * n);
  std::shared_ptr<Matmul> product = request.context.device.matmul(spec);
  lowered.scratch_bytes = product->workspace_bytes();
  lowered.kernel = make_kernel(
      [product](const Operands& at) {
        product->run(at.inputs[0], at.inputs[1], nullptr, at.outputs[0], at.scratch);
      },
      product->name());
  return lowered;
}

}  // namespace

std::span<const OpEntry> linear_ops() {
  static constexpr std::array entries{
      OpEntry{"linear", lower_linear}, OpEntry{"linear_input_gradient", lower_linear_input_gradient},
      OpEntry{"linear_weight_gradient", lower_linear_weight_gradient}, OpEntry{"matmul", lower_matmul}};
  return entries;
}

}  // namespace assay::cuda
