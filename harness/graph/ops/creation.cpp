// Ops that make a tensor from data of a program: an array, or a list of numbers.
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class FromArray final : public Op {
 public:
  std::string_view name() const override { return "from_array"; }
  std::string_view contract() const override {
    return "y = x, copied into the backend's own memory, as a framework copies an array that a program "
           "passes to it (numpy in Python). With `in_list`, a Python worker passes a list of the rows of x, each "
           "an array. x and y have one type and one shape. It has no gradient.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"in_list"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    if (attributes.get_or("in_list", false))
      in.require(!in.shape(0).empty(), "a list of rows needs an array of one dimension or more");
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
};

class FromList final : public Op {
 public:
  std::string_view name() const override { return "from_list"; }
  std::string_view contract() const override {
    return "y[i] = the number i of a list of boxed numbers. Each row of numbers (N, 2) is a tag and a "
           "value: tag 0 means a whole value, tag 1 a real one; y (N) is f32 (f64 if numbers are f64). A "
           "Python worker builds the list of int and float objects when the operands are staged and "
           "converts the list in the step; a C++ worker reads each tag and converts its value, like a "
           "variant. It has no gradient.";
  }
  std::vector<Operand> operands() const override { return {{"numbers", false, Kind::master}}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 2);
    in.floating(0);
    in.require(in.shape(0)[1] == 2, "the second dimension of numbers must be 2: a tag and a value");
    return {{in.dtype(0), {in.shape(0)[0]}}};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
};

}  // namespace

const Op& from_array_op() {
  static const FromArray op;
  return op;
}
const Op& from_list_op() {
  static const FromList op;
  return op;
}

}  // namespace assay
