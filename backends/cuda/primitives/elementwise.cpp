// What goes element by element: activations, sums, products, casts, copies and constants.
#include "backends/cuda/primitives/composition.hpp"
#include "backends/cuda/primitives/ops.hpp"

namespace assay::cuda::primitives {
namespace {

Term operand(const Request& request, std::size_t i) {
  return Composition::input(i, dense(request.inputs[i]));
}
Term result(const Request& request) { return Composition::output(0, dense(request.outputs[0])); }

template <Activation kind>
Lowered lower_activation(const Request& request) {
  Lowered lowered = draft(request, request.follow({0}));
  Composition steps(request);
  steps.run(steps.calls().activation(kind, dense(request.inputs[0])), {operand(request, 0)},
            {result(request)});
  steps.finish(lowered);
  return lowered;
}

template <Activation kind>
Lowered lower_activation_gradient(const Request& request) {
  Lowered lowered = draft(request, request.follow_all());
  Composition steps(request);
  steps.run(steps.calls().activation_gradient(kind, dense(request.inputs[0])),
            {operand(request, 0), operand(request, 1)}, {result(request)});
  steps.finish(lowered);
  return lowered;
}

template <Binary kind>
Lowered lower_binary(const Request& request) {
  Lowered lowered = draft(request, request.follow_all());
  Composition steps(request);
  const bool scalar = request.in(1) != request.in(0);  // of a product
  const TensorSpec one = packed(request.inputs[1].dtype, Shape(dense(request.inputs[0]).shape.size(), 1));
  const Term b = scalar ? Composition::input(1, one) : operand(request, 1);
  steps.binary(kind, 1, operand(request, 0), 1, b, result(request));
  steps.finish(lowered);
  return lowered;
}

// b may have the last dimensions of a: a row that is added to all rows.
Lowered lower_add(const Request& request) {
  if (request.in(0) == request.in(1)) return lower_binary<Binary::add>(request);
  const std::int64_t row = request.inputs[1].elements();
  const TensorSpec rows = packed(request.inputs[0].dtype, {request.inputs[0].elements() / row, row});
  Lowered lowered = draft(request, Layout::plain);
  Composition steps(request);
  steps.binary(Binary::add, 1, steps.input(0, rows), 1,
               steps.input(1, packed(request.inputs[1].dtype, {1, row})), steps.output(0, rows));
  steps.finish(lowered);
  return lowered;
}

Lowered lower_convert(const Request& request) {
  Lowered lowered = draft(request, request.follow({0}));
  Composition steps(request);
  steps.convert(operand(request, 0), result(request));
  steps.finish(lowered);
  return lowered;
}

Lowered lower_constant(const Request& request) {
  Lowered lowered = draft(request, request.follow({}));
  Composition steps(request);
  steps.run(steps.calls().fill(request.number("value"), dense(request.outputs[0])), {}, {result(request)});
  steps.finish(lowered);
  return lowered;
}

}  // namespace

std::span<const OpEntry> elementwise_ops() {
  using enum Activation;
  static constexpr std::array entries{OpEntry{"relu", lower_activation<relu>},
                                      OpEntry{"relu_gradient", lower_activation_gradient<relu>},
                                      OpEntry{"sigmoid", lower_activation<sigmoid>},
                                      OpEntry{"sigmoid_gradient", lower_activation_gradient<sigmoid>},
                                      OpEntry{"tanh", lower_activation<tanh>},
                                      OpEntry{"tanh_gradient", lower_activation_gradient<tanh>},
                                      OpEntry{"softplus", lower_activation<softplus>},
                                      OpEntry{"softplus_gradient", lower_activation_gradient<softplus>},
                                      OpEntry{"softsign", lower_activation<softsign>},
                                      OpEntry{"softsign_gradient", lower_activation_gradient<softsign>},
                                      OpEntry{"add", lower_add},
                                      OpEntry{"multiply", lower_binary<Binary::multiply>},
                                      OpEntry{"cast", lower_convert},
                                      OpEntry{"from_array", lower_convert},
                                      OpEntry{"constant", lower_constant}};
  return entries;
}

}  // namespace assay::cuda::primitives
