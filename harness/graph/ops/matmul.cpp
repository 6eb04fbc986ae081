#include <algorithm>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Matmul final : public Op {
 public:
  std::string_view name() const override { return "matmul"; }
  std::string_view contract() const override {
    return "y = A B. A is a or, with attribute transpose_a, a with its last two dimensions exchanged; B "
           "likewise. A (..., M, K), B (..., K, N); y (..., M, N). The leading dimensions are a batch of "
           "products and must be equal; without them matmul is BLAS's gemm with alpha 1 and beta 0. a, b "
           "and y have one type; sums are f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"a"}, {"b"}}; }
  std::vector<std::string> attributes() const override { return {"transpose_a", "transpose_b"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.same_dtype(1, 0);
    Shape a = in.shape(0), b = in.shape(1);
    in.require(a.size() >= 2, "a must have two dimensions or more");
    in.rank(1, a.size());
    const std::size_t row = a.size() - 2, column = a.size() - 1;
    if (attributes.get<bool>("transpose_a")) std::swap(a[row], a[column]);
    if (attributes.get<bool>("transpose_b")) std::swap(b[row], b[column]);
    in.require(a[column] == b[row], "inner dimensions differ");
    in.require(std::equal(a.begin(), a.end() - 2, b.begin()), "the dimensions before the matrices differ");
    a[column] = b[column];
    return {{in.dtype(0), a}};
  }
  double flops(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType> outputs) const override {
    const Shape& a = inputs[0].shape;
    const auto inner = attributes.get<bool>("transpose_a") ? a[a.size() - 2] : a.back();
    return 2 * static_cast<double>(outputs[0].elements()) * static_cast<double>(inner);
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const bool ta = node.attributes.get<bool>("transpose_a"), tb = node.attributes.get<bool>("transpose_b");
    const ValueId a = node.inputs[0], b = node.inputs[1], dy = output_gradients[0];
    const auto product = [&](ValueId left, bool left_transposed, ValueId right, bool right_transposed,
                             const char* name) {
      return builder.apply("matmul", {left, right},
                           {{"transpose_a", left_transposed}, {"transpose_b", right_transposed}},
                           node.name + name)[0];
    };
    // dA = dy B^T and dB = A^T dy; a and b are A and B, or their transposes.
    const ValueId da =
        ta ? product(b, tb, dy, true, ".gradient_a") : product(dy, false, b, !tb, ".gradient_a");
    const ValueId db =
        tb ? product(dy, true, a, ta, ".gradient_b") : product(a, !ta, dy, false, ".gradient_b");
    return {da, db};
  }
};

}  // namespace

const Op& matmul_op() {
  static const Matmul op;
  return op;
}

}  // namespace assay
