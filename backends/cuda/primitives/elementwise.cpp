// What goes element by element: activations, sums, products, casts, copies and constants.
#include "backends/cuda/primitives/composition.hpp"
#include "backends/cuda/primitives/ops.hpp"
#include "harness/graph/broadcast.hpp"

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

// y = a + scale b, or a * b.
Lowered lower_binary(const Request& request, Binary kind, float scale) {
  Composition steps(request);
  if (request.in(0) == request.in(1)) {
    Lowered lowered = draft(request, request.follow_all());
    steps.binary(kind, 1, operand(request, 0), scale, operand(request, 1), result(request));
    steps.finish(lowered);
    return lowered;
  }
  // cuDNN repeats b; a is repeated by a call of its own.
  const Broadcast walk = broadcast(request.inputs[0].shape, request.inputs[1].shape);
  const DType dtype = request.inputs[0].dtype;
  const TensorSpec whole = packed(dtype, walk.sizes);
  Lowered lowered = draft(request, Layout::plain);
  Term a = steps.input(0, packed(dtype, walk.shape_of(walk.a)));
  if (a.spec.shape != whole.shape) {
    const Term repeated = steps.temporary(whole);
    steps.run(steps.calls().repeat(1, a.spec, whole), {a}, {repeated});
    a = repeated;
  }
  steps.binary(kind, 1, a, scale, steps.input(1, packed(dtype, walk.shape_of(walk.b))),
               steps.output(0, whole));
  steps.finish(lowered);
  return lowered;
}

template <Binary kind, int scale = 1>
Lowered lower_binary_of(const Request& request) {
  return lower_binary(request, kind, scale);
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
                                      OpEntry{"add", lower_binary_of<Binary::add>},
                                      OpEntry{"subtract", lower_binary_of<Binary::add, -1>},
                                      OpEntry{"multiply", lower_binary_of<Binary::multiply>},
                                      OpEntry{"cast", lower_convert},
                                      OpEntry{"from_array", lower_convert},
                                      OpEntry{"constant", lower_constant}};
  return entries;
}

}  // namespace assay::cuda::primitives
