// Looks up rows of a table, and the two forms of the table's gradient.
#include <algorithm>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// indices (S...), dy (S..., D): checks S and D. The first dimensions of dy are those of the indices.
void check_looked_up(const Operands& in, std::size_t indices, std::size_t dy) {
  in.require(in.dtype(indices) == DType::i32, "indices must be i32");
  in.floating(dy);
  const Shape &s = in.shape(indices), &rows = in.shape(dy);
  in.require(rows.size() == s.size() + 1 && std::equal(s.begin(), s.end(), rows.begin()),
             "dy must have the dimensions of the indices and one more");
}

std::int64_t rows_attribute(const Operands& in, const Attributes& attributes) {
  const std::int64_t rows = attributes.get<std::int64_t>("rows");
  in.require(rows >= 1 && rows < std::int64_t{1} << 31, "attribute 'rows' must be from 1 to 2^31 - 1");
  return rows;
}

class Embedding final : public Op {
 public:
  std::string_view name() const override { return "embedding"; }
  std::string_view contract() const override {
    return "y[s] = weight[indices[s]], row by row. indices i32 (S...) of any shape, weight (V, D); y (S..., "
           "D) has the type of the weight. An index outside [0, V) gives a row of zeros and has no "
           "gradient. Attribute sparse_gradient (default: false): true if the weight's gradient is "
           "row-sparse (embedding_row_gradient), false if it is dense (embedding_gradient).";
  }
  std::vector<Operand> operands() const override { return {{"indices", false, Kind::index}, {"weight"}}; }
  std::vector<std::string> attributes() const override { return {"sparse_gradient"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.require(in.dtype(0) == DType::i32, "indices must be i32");
    in.rank(1, 2);
    in.floating(1);
    attributes.get_or("sparse_gradient", false);
    Shape shape = in.shape(0);
    shape.push_back(in.shape(1)[1]);
    return {{in.dtype(1), std::move(shape)}};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const Attributes table{{"rows", builder.graph().value(node.inputs[1]).type.shape[0]}};
    if (!node.attributes.get_or("sparse_gradient", false)) {
      return {none, builder.apply("embedding_gradient", {node.inputs[0], output_gradients[0]}, table,
                                  node.name + ".gradient")[0]};
    }
    return {none, builder.apply("embedding_row_gradient", {node.inputs[0], output_gradients[0]}, table,
                                node.name + ".row_gradient")[0]};
  }
};

class EmbeddingGradient final : public Op {
 public:
  std::string_view name() const override { return "embedding_gradient"; }
  std::string_view contract() const override {
    return "dweight[v] = the sum of dy[s] over all s with indices[s] = v; rows that no index names are "
           "zero. indices i32 (S...), dy (S..., D); dweight (rows, D) has the type of the sums, f32 for "
           "bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"indices", false, Kind::index}, {"dy"}}; }
  std::vector<std::string> attributes() const override { return {"rows"}; }
  std::vector<Result> results() const override { return {{"dweight"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_looked_up(in, 0, 1);
    return {{accumulation(in.dtype(1)), {rows_attribute(in, attributes), in.shape(1).back()}}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[1].elements());
  }
};

class EmbeddingRowGradient final : public Op {
 public:
  std::string_view name() const override { return "embedding_row_gradient"; }
  std::string_view contract() const override {
    return "The gradient of a table as a row-sparse tensor: values[k] is the gradient of row touched[k], "
           "all other rows are zero. touched has the different indices in [0, rows), ascending, then -1; "
           "values after the last index are zero. Duplicates are summed: values[k] = the sum of dy[s] over "
           "all s with indices[s] = touched[k]. indices i32 (S...), dy (S..., D); values (K, D), touched "
           "i32 (K), K = the smaller of rows and the number of indices. The sums are f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"indices", false, Kind::index}, {"dy"}}; }
  std::vector<std::string> attributes() const override { return {"rows"}; }
  std::vector<Result> results() const override { return {{"values"}, {"touched"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_looked_up(in, 0, 1);
    const std::int64_t kept = std::min(rows_attribute(in, attributes), inputs[0].elements());
    return {{accumulation(in.dtype(1)), {kept, in.shape(1).back()}}, {DType::i32, {kept}}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[1].elements());
  }
};

class DenseRows final : public Op {
 public:
  std::string_view name() const override { return "dense_rows"; }
  std::string_view contract() const override {
    return "A row-sparse tensor written out: dense[touched[k]] = values[k], every other row is zero. values "
           "(K, D), touched i32 (K) of different rows or -1; dense (rows, D) has the type of the values.";
  }
  std::vector<Operand> operands() const override {
    return {{"values", false, Kind::master}, {"touched", false, Kind::index}};
  }
  std::vector<std::string> attributes() const override { return {"rows"}; }
  std::vector<Result> results() const override { return {{"dense"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 2);
    in.floating(0);
    in.require(in.dtype(1) == DType::i32, "touched must be i32");
    in.shaped(1, {in.shape(0)[0]});
    return {{in.dtype(0), {rows_attribute(in, attributes), in.shape(0)[1]}}};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
};

}  // namespace

const Op& embedding_op() {
  static const Embedding op;
  return op;
}
const Op& embedding_gradient_op() {
  static const EmbeddingGradient op;
  return op;
}
const Op& embedding_row_gradient_op() {
  static const EmbeddingRowGradient op;
  return op;
}
const Op& dense_rows_op() {
  static const DenseRows op;
  return op;
}

}  // namespace assay
