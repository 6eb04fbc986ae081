#include <algorithm>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class MaxPool final : public Op {
 public:
  std::string_view name() const override { return "max_pool"; }
  std::string_view contract() const override {
    return "The maximum over each window of x (N, C, H, W); padding never wins. If elements are equal, the "
           "first in row-major order within the window wins and gets the gradient. The output has floor((H + "
           "paddings - kernel) / stride) + 1 rows. kernel and stride are one number or [rows, columns], the "
           "padding is one or [top, left, bottom, right], less than the kernel. y has the type of x. The "
           "saved result argmax is the index of the maximum; the backend chooses its form.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"kernel", "stride", "padding"}; }
  std::vector<Result> results() const override { return {{"y"}, {"argmax", true, true, true}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    return {infer_pool(Operands(*this, inputs, present), attributes), {}};
  }
  double flops(const Attributes& attributes, std::span<const TensorType>,
               std::span<const TensorType> outputs) const override {
    return static_cast<double>(outputs[0].elements()) * window_elements(attributes);
  }
  Kink kink(const Attributes&) const override { return Kink::choice; }
  // For each window the index of its first maximum within the plane of x (N, C, H, W).
  std::vector<std::int32_t> choices(const Attributes& attributes, const Shape& x,
                                    std::span<const double> values) const override {
    const auto [down, across] = pool_window(attributes);
    const std::int64_t height = x[2], width = x[3], rows = down.windows(height),
                       columns = across.windows(width);
    std::vector<std::int32_t> first;
    first.reserve(static_cast<std::size_t>(x[0] * x[1] * rows * columns));
    for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
      const double* at = values.data() + plane * height * width;
      for (std::int64_t o = 0; o < rows * columns; ++o) {
        const std::int64_t top = o / columns * down.stride - down.before;
        const std::int64_t left = o % columns * across.stride - across.before;
        std::int64_t best = std::max<std::int64_t>(top, 0) * width + std::max<std::int64_t>(left, 0);
        for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + down.kernel, height); ++h) {
          for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + across.kernel, width);
               ++w)
            if (at[h * width + w] > at[best]) best = h * width + w;
        }
        first.push_back(static_cast<std::int32_t>(best));
      }
    }
    return first;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("max_pool_gradient", {output_gradients[0], node.outputs[1], none},
                         pool_gradient_attributes(builder.graph(), node), node.name + ".gradient");
  }
};

class MaxPoolGradient final : public Op {
 public:
  std::string_view name() const override { return "max_pool_gradient"; }
  std::string_view contract() const override {
    return "dx[n,c,h,w] = the sum of dy over the windows whose maximum was (h, w), 0 elsewhere. argmax is "
           "the saved result of max_pool. Attribute size [H, W] is that of x. dx has the type of dy. The "
           "optional operand mask (written by fusion, of the shape and type of dx) is the output of the "
           "ReLU before it: dx is 0 where mask <= 0. Fusion also writes x and y, the operand and the result "
           "of max_pool, for libraries that find the maximum again instead of reading argmax.";
  }
  std::vector<Operand> operands() const override {
    return {{"dy", false, Kind::any},
            {"argmax", false, Kind::index},
            {"mask", true, Kind::any},
            {"x", true, Kind::any, true},
            {"y", true, Kind::any, true}};
  }
  std::vector<std::string> attributes() const override { return {"kernel", "stride", "padding", "size"}; }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    const TensorType dx = infer_pool_gradient(in, attributes, 2);
    if (in.has(3)) in.require(in.type(3) == dx, "x is not of the shape and type of dx");
    if (in.has(4)) in.same_type(4, 0);
    return {dx};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
};

}  // namespace

const Op& max_pool_op() {
  static const MaxPool op;
  return op;
}
const Op& max_pool_gradient_op() {
  static const MaxPoolGradient op;
  return op;
}

}  // namespace assay
