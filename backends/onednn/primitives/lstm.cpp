// oneDNN's LSTM, forward and backward. Sequences are in tnc (step by step), as in its documentation: in ntc,
// oneDNN 3.2 reads outside of the sequences when it sums the gradient of a weight. The states before the
// first step are passed as zeros: without them the gradient of the recurrent weight is wrong. The contract's
// weights (4H, I) are oneDNN's ldgoi and are reordered into the primitive's own formats in each step.
#include "backends/onednn/primitives/composition.hpp"
#include "backends/onednn/primitives/ops.hpp"

namespace assay::onednn::primitives {
namespace {

constexpr auto left_to_right = dnnl::rnn_direction::unidirectional_left2right;

// oneDNN's layouts of one layer's tensors: f32 in the backward pass, except the operands of products.
struct Layer {
  std::int64_t samples, steps, features, units;
  bool last;
  DType dtype;

  explicit Layer(const Request& request)
      : samples(request.inputs[0].shape[0]),
        steps(request.inputs[0].shape[1]),
        features(request.inputs[0].shape[2]),
        units(request.inputs[2].shape[1]),
        last(request.node.attributes.get<bool>("last")),
        dtype(request.inputs[0].dtype) {}

  Desc x(DType type) const { return with_tag({type, {steps, samples, features}}, Tag::tnc); }
  Desc all_h(DType type) const { return with_tag({type, {steps, samples, units}}, Tag::tnc); }
  // h or c of one step.
  Desc state(DType type) const { return with_tag({type, {1, 1, samples, units}}, Tag::ldnc); }
  // After the last step; empty if it is not needed.
  Desc end(DType type) const { return last ? state(type) : Desc(); }
  Desc weight(DType type, std::int64_t rows, Tag tag) const {
    return with_tag({type, {1, 1, rows, 4, units}}, tag);
  }
  Desc bias() const { return with_tag({DType::f32, {1, 1, 4, units}}, Tag::ldgo); }

  dnnl::lstm_forward::primitive_desc forward(const dnnl::engine& engine, dnnl::prop_kind task) const {
    return ASSAY_ONEDNN(dnnl::lstm_forward::primitive_desc(
        engine, task, left_to_right, x(dtype), state(dtype), state(DType::f32),
        weight(dtype, features, Tag::any), weight(dtype, units, Tag::any), bias(), all_h(dtype), end(dtype),
        end(DType::f32), attributes()));
  }
};

// The offsets of the parts of a reserve: the values of the forward primitive that the backward one reads.
struct Reserve {
  Desc workspace, all_h, h, c, bias;
  std::int64_t bytes = 0;
  std::int64_t all_h_at, h_at, c_at, bias_at;

  Reserve(const Layer& layer, const dnnl::lstm_forward::primitive_desc& forward)
      : workspace(forward.workspace_desc()),
        all_h(forward.dst_layer_desc()),
        h(layer.end(layer.dtype)),
        c(layer.end(DType::f32)),
        bias(layer.bias()) {
    take(workspace);
    all_h_at = take(all_h);
    h_at = take(h);
    c_at = take(c);
    bias_at = take(bias);
  }

 private:
  std::int64_t take(const Desc& desc) {
    const std::int64_t at = bytes;
    bytes += aligned(static_cast<std::int64_t>(desc.get_size()));
    return at;
  }
};

// The format of a graph's sequences (N, T, I) whose bytes are those of tnc.
Format by_steps(const TensorType& type) { return to_format(with_tag(type, Tag::bac)); }

// Returns operand i, a weight (4H, rows), in the format that the primitive chose.
Term weight_in(Composition& steps, const Layer& layer, std::size_t i, std::int64_t rows, const Desc& chosen) {
  const Term weight = steps.temporary(chosen);
  steps.reorder(steps.input(i, layer.weight(layer.dtype, rows, Tag::ldgoi)), weight);
  return weight;
}

// Operands x, weight, recurrent_weight, bias; results y, reserve (optional).
Lowered lower_lstm(const Request& request) {
  const Layer layer(request);
  const bool training = request.has_output(1);
  Lowered lowered = row_major_draft(request);
  lowered.inputs[0] = by_steps(request.inputs[0]);
  if (!layer.last) lowered.outputs[0] = by_steps(request.outputs[0]);
  Composition steps(request);
  const auto chosen = layer.forward(
      steps.engine(), training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference);
  const Reserve kept(layer, chosen);
  // A part of the reserve. Inference has no reserve: then it is the result, or scratch.
  const auto place = [&](const Desc& desc, std::int64_t at, bool is_result) {
    if (training) return steps.output(1, desc, at);
    return is_result ? steps.output(0, desc) : steps.temporary(desc);
  };
  const Term x_weight = weight_in(steps, layer, 1, layer.features, chosen.weights_layer_desc());
  const Term h_weight = weight_in(steps, layer, 2, layer.units, chosen.weights_iter_desc());
  const Term bias = steps.input(3, layer.bias());
  const Term all_h = place(kept.all_h, kept.all_h_at, !layer.last);
  std::vector<std::pair<int, Term>> arguments{{DNNL_ARG_SRC_LAYER, steps.input(0, layer.x(layer.dtype))},
                                              {DNNL_ARG_SRC_ITER, steps.zeros(layer.state(layer.dtype))},
                                              {DNNL_ARG_SRC_ITER_C, steps.zeros(layer.state(DType::f32))},
                                              {DNNL_ARG_WEIGHTS_LAYER, x_weight},
                                              {DNNL_ARG_WEIGHTS_ITER, h_weight},
                                              {DNNL_ARG_BIAS, bias},
                                              {DNNL_ARG_DST_LAYER, all_h}};
  Term y = all_h;
  if (layer.last) {
    y = place(kept.h, kept.h_at, true);
    arguments.insert(arguments.end(),
                     {{DNNL_ARG_DST_ITER, y}, {DNNL_ARG_DST_ITER_C, place(kept.c, kept.c_at, false)}});
  }
  if (training) arguments.emplace_back(DNNL_ARG_WORKSPACE, steps.output(1, kept.workspace));
  steps.run<dnnl::lstm_forward>(chosen, arguments);
  if (training) {
    steps.reorder(y, steps.output(0, y.desc));
    steps.reorder(bias, steps.output(1, kept.bias, kept.bias_at));
    lowered.outputs[1] = opaque_format(kept.bytes, row_major(request.inputs[0]));
  }
  steps.finish(lowered);
  return lowered;
}

// Result o, a weight's gradient (4H, rows): oneDNN adds to the existing values, in its own format.
Term weight_gradient_term(Composition& steps, const Desc& chosen) {
  const Term gradient = steps.temporary(chosen);
  steps.fill(0, gradient);
  return gradient;
}

// Operands x, weight, recurrent_weight, reserve, dy; results dweight, drecurrent_weight, dbias, dx
// (optional).
Lowered lower_lstm_gradient(const Request& request) {
  const Layer layer(request);
  Lowered lowered = row_major_draft(request);
  lowered.overwritten = {3};  // the primitive writes to its workspace
  lowered.inputs[0] = by_steps(request.inputs[0]);
  if (!layer.last) lowered.inputs[4] = by_steps(request.inputs[4]);
  if (request.has_output(3)) lowered.outputs[3] = by_steps(request.outputs[3]);
  Composition steps(request);
  const auto forward = layer.forward(steps.engine(), dnnl::prop_kind::forward_training);
  const Reserve kept(layer, forward);
  const Desc x = layer.x(layer.dtype), dx = layer.x(DType::f32);
  const Desc h = layer.state(layer.dtype), c = layer.state(DType::f32);
  const Desc dall_h = layer.all_h(DType::f32), dend = layer.end(DType::f32);
  const auto chosen = ASSAY_ONEDNN(dnnl::lstm_backward::primitive_desc(
      steps.engine(), dnnl::prop_kind::backward, left_to_right, x, h, c,
      layer.weight(layer.dtype, layer.features, Tag::any), layer.weight(layer.dtype, layer.units, Tag::any),
      layer.bias(), kept.all_h, kept.h, kept.c, dx, c, c, layer.weight(DType::f32, layer.features, Tag::any),
      layer.weight(DType::f32, layer.units, Tag::any), layer.bias(), dall_h, dend, dend, forward,
      attributes()));
  const Term x_weight = weight_in(steps, layer, 1, layer.features, chosen.weights_layer_desc());
  const Term h_weight = weight_in(steps, layer, 2, layer.units, chosen.weights_iter_desc());
  const Term dx_weight = weight_gradient_term(steps, chosen.diff_weights_layer_desc());
  const Term dh_weight = weight_gradient_term(steps, chosen.diff_weights_iter_desc());
  const Term dbias = steps.output(2, layer.bias());
  steps.fill(0, dbias);
  const bool direct = request.has_output(3) && layer.dtype == DType::f32;
  const Term dx_term = direct ? steps.output(3, dx) : steps.temporary(dx);
  const Desc dy_desc = layer.last ? layer.end(layer.dtype) : layer.all_h(layer.dtype);
  Term dy = steps.input(4, dy_desc);
  if (layer.dtype != DType::f32) {
    const Term wide = steps.temporary(layer.last ? dend : dall_h);
    steps.reorder(dy, wide);
    dy = wide;
  }
  const auto from_reserve = [&](const Desc& desc, std::int64_t at) { return steps.input(3, desc, at); };
  std::vector<std::pair<int, Term>> arguments{{DNNL_ARG_SRC_LAYER, steps.input(0, x)},
                                              {DNNL_ARG_SRC_ITER, steps.zeros(h)},
                                              {DNNL_ARG_SRC_ITER_C, steps.zeros(c)},
                                              {DNNL_ARG_WEIGHTS_LAYER, x_weight},
                                              {DNNL_ARG_WEIGHTS_ITER, h_weight},
                                              {DNNL_ARG_BIAS, from_reserve(kept.bias, kept.bias_at)},
                                              {DNNL_ARG_DST_LAYER, from_reserve(kept.all_h, kept.all_h_at)},
                                              {DNNL_ARG_WORKSPACE, from_reserve(kept.workspace, 0)},
                                              {DNNL_ARG_DIFF_SRC_LAYER, dx_term},
                                              {DNNL_ARG_DIFF_SRC_ITER, steps.temporary(c)},
                                              {DNNL_ARG_DIFF_SRC_ITER_C, steps.temporary(c)},
                                              {DNNL_ARG_DIFF_WEIGHTS_LAYER, dx_weight},
                                              {DNNL_ARG_DIFF_WEIGHTS_ITER, dh_weight},
                                              {DNNL_ARG_DIFF_BIAS, dbias}};
  if (layer.last) {
    arguments.insert(arguments.end(), {{DNNL_ARG_DST_ITER, from_reserve(kept.h, kept.h_at)},
                                       {DNNL_ARG_DST_ITER_C, from_reserve(kept.c, kept.c_at)},
                                       {DNNL_ARG_DIFF_DST_LAYER, steps.zeros(dall_h)},
                                       {DNNL_ARG_DIFF_DST_ITER, dy},
                                       {DNNL_ARG_DIFF_DST_ITER_C, steps.zeros(dend)}});
  } else {
    arguments.emplace_back(DNNL_ARG_DIFF_DST_LAYER, dy);
  }
  steps.run<dnnl::lstm_backward>(chosen, arguments);
  steps.reorder(dx_weight, steps.output(0, layer.weight(DType::f32, layer.features, Tag::ldgoi)));
  steps.reorder(dh_weight, steps.output(1, layer.weight(DType::f32, layer.units, Tag::ldgoi)));
  if (request.has_output(3) && !direct) steps.reorder(dx_term, steps.output(3, x));
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> lstm_ops() {
  static constexpr std::array entries{OpEntry{"lstm", lower_lstm},
                                      OpEntry{"lstm_gradient", lower_lstm_gradient}};
  return entries;
}

}  // namespace assay::onednn::primitives
