// The fully connected layer. A flattened image keeps its order in memory: these kernels see a plain matrix,
// and the weights are kept in the same order of features. A tensor of more dimensions is seen as the matrix
// of its rows.
#include <optional>

#include "backends/onednn/masked_kernel.hpp"

namespace assay::onednn {
namespace {

std::vector<Desc> weight_candidates(const Request& request, const TensorType& weight, const Desc& offered) {
  if (request.offer.plain) return {row_major(weight)};
  if (offered.is_zero()) return {any_of(weight), row_major(weight)};
  return {offered, any_of(weight), row_major(weight)};
}

// What follows the product. residual: row-major, or empty.
struct Epilogue {
  std::string activation;
  Desc residual;

  dnnl::primitive_attr attributes() const {
    dnnl::primitive_attr attr = onednn::attributes(std::string_view(activation));
    if (residual.is_zero()) return attr;
    dnnl::post_ops after;
    after.append_binary(dnnl::algorithm::binary_add, residual);
    attr.set_post_ops(after);
    return attr;
  }
};

dnnl::inner_product_forward::primitive_desc forward(const Request& request, const TensorType& x,
                                                    const Desc& weight, const Desc& bias, const TensorType& y,
                                                    const Epilogue& epilogue) {
  return ASSAY_ONEDNN(dnnl::inner_product_forward::primitive_desc(
      request.context.engine, dnnl::prop_kind::forward_training, row_major(x), weight, bias, row_major(y),
      epilogue.attributes(), true));
}

// The order of features of the operand's offered format; row-major if none is offered.
Image features(const Request& request, std::size_t input) {
  return request.offer.plain ? Image{} : request.input_image(input);
}

// The format of a value that the primitive sees as the matrix `desc`.
Format rows_format(const TensorType& type, const Desc& desc, const Image& image = {}) {
  return type.shape.size() == 2 ? to_format(desc, image) : to_format(row_major(type));
}

// The offered weight, if its features have this order.
Desc same_features(const Image& wanted, const Desc& offered, const Image& image) {
  return image == wanted ? offered : Desc();
}

Lowered lower_linear(const Request& request) {
  const Image image = features(request, 0);
  const Desc bias = request.has_input(2) ? row_major(request.inputs[2]) : Desc();
  const TensorType x = as_matrix(request.inputs[0]), y = as_matrix(request.outputs[0]);
  const Epilogue epilogue{request.node.attributes.get_or("activation", std::string()),
                          request.has_input(3) ? row_major(y) : Desc()};
  const Desc offered = same_features(image, request.input_desc(1), request.input_image(1));
  const auto chosen =
      choose(request.node, weight_candidates(request, request.inputs[1], offered),
             [&](const Desc& weight) { return forward(request, x, weight, bias, y, epilogue); });
  Lowered lowered = draft(request);
  lowered.inputs[0] = rows_format(request.inputs[0], chosen.src_desc(), image);
  lowered.inputs[1] = to_format(chosen.weights_desc(), image);
  if (request.has_input(2)) lowered.inputs[2] = to_format(bias);
  if (request.has_input(3)) lowered.inputs[3] = to_format(row_major(request.inputs[3]));
  lowered.outputs[0] = rows_format(request.outputs[0], chosen.dst_desc());
  auto kernel =
      std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::inner_product_forward(chosen)));
  kernel->input(DNNL_ARG_SRC, chosen.src_desc(), 0).input(DNNL_ARG_WEIGHTS, chosen.weights_desc(), 1);
  kernel->input(DNNL_ARG_BIAS, bias, 2).output(DNNL_ARG_DST, chosen.dst_desc(), 0);
  kernel->input(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, epilogue.residual, 3);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// What the input gradient is lowered to: one primitive that reads dy and the weight, and writes dx.
struct InputGradient {
  std::unique_ptr<PrimitiveKernel> kernel;
  Desc dy, weight, dx, scratchpad;
};

// With as many rows as this the time of the product is far above that of a copy of the weight.
constexpr std::int64_t many_rows = 1024;

// The gradient as dy times the weight, which is copied into the format that oneDNN's matmul is quickest with; nothing
// if that matmul is no optimised one.
std::optional<InputGradient> as_matmul(const Request& request, const TensorType& x, const TensorType& dy) {
  if (request.offer.plain || dy.shape[0] < many_rows) return {};
  const auto chosen = ASSAY_ONEDNN(dnnl::matmul::primitive_desc(
      request.context.engine, row_major(dy), any_of(request.inputs[1]), row_major(x), attributes(), true));
  if (chosen.get(true) == nullptr || !std::string_view(chosen.impl_info_str()).starts_with("brg")) return {};
  auto kernel = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::matmul(chosen)));
  kernel->input(DNNL_ARG_SRC, chosen.src_desc(), 0).input(DNNL_ARG_WEIGHTS, chosen.weights_desc(), 1);
  kernel->output(DNNL_ARG_DST, chosen.dst_desc(), 0);
  return InputGradient{std::move(kernel), chosen.src_desc(), chosen.weights_desc(), chosen.dst_desc(),
                       chosen.scratchpad_desc()};
}

InputGradient as_inner_product(const Request& request, const TensorType& x, const TensorType& dy) {
  const auto hint =
      choose(request.node, std::vector<Desc>{any_of(request.inputs[1]), row_major(request.inputs[1])},
             [&](const Desc& weight) { return forward(request, x, weight, {}, dy, {}); });
  const auto chosen =
      choose(request.node, weight_candidates(request, request.inputs[1], request.input_desc(1)),
             [&](const Desc& weight) {
               return ASSAY_ONEDNN(dnnl::inner_product_backward_data::primitive_desc(
                   request.context.engine, row_major(x), weight, row_major(dy), hint, attributes(), true));
             });
  auto kernel = std::make_unique<PrimitiveKernel>(request.context,
                                                  ASSAY_ONEDNN(dnnl::inner_product_backward_data(chosen)));
  kernel->input(DNNL_ARG_DIFF_DST, chosen.diff_dst_desc(), 0)
      .input(DNNL_ARG_WEIGHTS, chosen.weights_desc(), 1);
  kernel->output(DNNL_ARG_DIFF_SRC, chosen.diff_src_desc(), 0);
  return {std::move(kernel), chosen.diff_dst_desc(), chosen.weights_desc(), chosen.diff_src_desc(),
          chosen.scratchpad_desc()};
}

Lowered lower_linear_input_gradient(const Request& request) {
  const Image image = features(request, 1);
  const TensorType x = as_matrix(request.outputs[0]), dy = as_matrix(request.inputs[0]);
  std::optional<InputGradient> product = as_matmul(request, x, dy);
  if (!product) product = as_inner_product(request, x, dy);
  Lowered lowered = draft(request);
  lowered.inputs[0] = rows_format(request.inputs[0], product->dy);
  lowered.inputs[1] = to_format(product->weight, image);
  lowered.outputs[0] = rows_format(request.outputs[0], product->dx, image);
  finish(lowered, std::move(product->kernel), product->scratchpad);
  if (request.has_input(2)) {
    lowered.inputs[2] = lowered.outputs[0];
    lowered.kernel = masked(request.context, std::move(lowered.kernel), product->dx, 2);
  }
  return lowered;
}

// More than the second caches of a few cores: a primitive that copies this much is slower than one that reads its
// operands where they are.
constexpr std::size_t large_copy = std::size_t{8} << 20;

Lowered lower_linear_weight_gradient(const Request& request) {
  const Image image = features(request, 0);
  const TensorType& weight = request.outputs[0];
  const TensorType x = as_matrix(request.inputs[0]), dy = as_matrix(request.inputs[1]);
  TensorType forward_weight = weight;
  forward_weight.dtype = request.inputs[0].dtype;
  const Desc bias = request.has_output(1) ? row_major(request.outputs[1]) : Desc();
  const auto hint = choose(request.node, std::vector<Desc>{any_of(forward_weight), row_major(forward_weight)},
                           [&](const Desc& desc) { return forward(request, x, desc, {}, dy, {}); });
  const Desc offered = same_features(image, request.output_desc(0), request.output_image(0));
  const auto product = [&](const Desc& desc) {
    return ASSAY_ONEDNN(dnnl::inner_product_backward_weights::primitive_desc(
        request.context.engine, row_major(x), desc, bias, row_major(dy), hint, attributes(), true));
  };
  auto chosen = choose(request.node, weight_candidates(request, weight, offered), product);
  const bool copies = x.shape[0] >= many_rows && chosen.scratchpad_desc().get_size() > large_copy;
  if (copies && x.dtype == DType::f32)
    chosen = choose(request.node, std::vector<Desc>{row_major(weight), chosen.diff_weights_desc()}, product);
  return weight_gradient<dnnl::inner_product_backward_weights>(request, chosen, bias, image);
}

}  // namespace

std::span<const OpEntry> linear_ops() {
  static constexpr std::array entries{OpEntry{"linear", lower_linear, true},
                                      OpEntry{"linear_input_gradient", lower_linear_input_gradient, true},
                                      OpEntry{"linear_weight_gradient", lower_linear_weight_gradient, true}};
  return entries;
}

}  // namespace assay::onednn
