#include "harness/graph/broadcast.hpp"

#include <algorithm>

namespace assay {
namespace {

// Dimension d of `rank` that the shape has when it is aligned at the last one; 1 where it has none.
std::int64_t dimension(const Shape& shape, std::size_t d, std::size_t rank) {
  return d + shape.size() < rank ? 1 : shape[d + shape.size() - rank];
}

}  // namespace

std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  Shape y(std::max(a.size(), b.size()));
  for (std::size_t d = 0; d < y.size(); ++d) {
    const std::int64_t of_a = dimension(a, d, y.size()), of_b = dimension(b, d, y.size());
    if (of_a != of_b && of_a != 1 && of_b != 1) return std::nullopt;
    y[d] = of_a == 1 ? of_b : of_a;
  }
  return y;
}

Broadcast broadcast(const Shape& a, const Shape& b) {
  const Shape y = broadcast_shape(a, b).value();
  Broadcast walk;  // from the last dimension to the first
  std::int64_t next_a = 1, next_b = 1;
  for (std::size_t d = y.size(); d-- > 0;) {
    if (y[d] == 1) continue;
    const std::int64_t of_a = dimension(a, d, y.size()), of_b = dimension(b, d, y.size());
    const std::int64_t stride_a = of_a == 1 ? 0 : next_a, stride_b = of_b == 1 ? 0 : next_b;
    next_a *= of_a;
    next_b *= of_b;
    if (!walk.sizes.empty()) {
      const std::int64_t inner = walk.sizes.back();
      if (stride_a == walk.a.back() * inner && stride_b == walk.b.back() * inner) {
        walk.sizes.back() *= y[d];
        continue;
      }
    }
    walk.sizes.push_back(y[d]);
    walk.a.push_back(stride_a);
    walk.b.push_back(stride_b);
  }
  if (walk.sizes.empty()) walk = {{1}, {1}, {1}};
  for (auto* list : {&walk.sizes, &walk.a, &walk.b}) std::ranges::reverse(*list);
  return walk;
}

Shape Broadcast::shape_of(const std::vector<std::int64_t>& strides) const {
  Shape shape = sizes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (strides[d] == 0) shape[d] = 1;
  }
  return shape;
}

}  // namespace assay
