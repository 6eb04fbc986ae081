#include "harness/graph/ops/rules.hpp"

namespace assay {

TensorType infer_pool(const Operands& in, const Attributes& attributes) {
  in.rank(0, 4);
  in.floating(0);
  const Shape& x = in.shape(0);
  const SlidingWindow window = checked_pool_window(in, attributes, x[2], x[3]);
  return {in.dtype(0), {x[0], x[1], window.rows.windows(x[2]), window.columns.windows(x[3])}};
}

TensorType infer_pool_gradient(const Operands& in, const Attributes& attributes, std::size_t mask) {
  in.rank(0, 4);
  in.floating(0);
  const Shape& dy = in.shape(0);
  const std::vector<std::int64_t> size = size_attribute(in, attributes, "size", 2);
  const SlidingWindow window = checked_pool_window(in, attributes, size[0], size[1]);
  in.require(dy[2] == window.rows.windows(size[0]) && dy[3] == window.columns.windows(size[1]),
             "dy does not follow from the attribute 'size'");
  const Shape dx{dy[0], dy[1], size[0], size[1]};
  in.mask(mask, dx);
  return {in.dtype(0), dx};
}

Attributes pool_gradient_attributes(const Graph& graph, const Node& pool) {
  const Shape& x = graph.value(pool.inputs[0]).type.shape;
  Attributes attributes = pool.attributes;
  attributes.set("size", std::vector<std::int64_t>{x[2], x[3]});
  return attributes;
}

double window_elements(const Attributes& attributes) {
  const SlidingWindow window = pool_window(attributes);
  return static_cast<double>(window.rows.kernel) * static_cast<double>(window.columns.kernel);
}

}  // namespace assay
