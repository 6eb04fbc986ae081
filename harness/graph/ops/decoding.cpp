// Generating tokens one at a time: the caches of keys and values, and the position of the next token.
#include <fmt/format.h>

#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

void check_position(const Operands& in, std::size_t i) {
  in.require(in.dtype(i) == DType::i32, "position must be i32");
  in.shaped(i, {1});
}

// A positive number, such as a length.
std::int64_t count_attribute(const Operands& in, const Attributes& attributes, std::string_view name) {
  const auto count = attributes.get<std::int64_t>(name);
  in.require(count >= 1, fmt::format("attribute '{}' must be at least 1", name));
  return count;
}

// Moves data, or makes whole numbers and masks: nothing of it is arithmetic, and nothing has a gradient.
class DecodingOp : public Op {
 public:
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
};

class TokensAt final : public DecodingOp {
 public:
  std::string_view name() const override { return "tokens_at"; }
  std::string_view contract() const override {
    return "y[n,i] = tokens[n, position + i]: as many tokens of each sample as the attribute length, from the "
           "place position on. tokens i32 (N, T), position i32 (1); y i32 (N, length). Every place must be "
           "less than T. It has no gradient.";
  }
  std::vector<Operand> operands() const override {
    return {{"tokens", false, Kind::index}, {"position", false, Kind::index}};
  }
  std::vector<std::string> attributes() const override { return {"length"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.require(in.dtype(0) == DType::i32, "tokens must be i32");
    in.rank(0, 2);
    check_position(in, 1);
    const std::int64_t length = count_attribute(in, attributes, "length");
    in.require(length <= in.shape(0)[1], "attribute 'length' must be at most the number of tokens");
    return {{DType::i32, {in.shape(0)[0], length}}};
  }
};

class CacheWrite final : public DecodingOp {
 public:
  std::string_view name() const override { return "cache_write"; }
  std::string_view contract() const override {
    return "y is cache, but y[n, position + s] = x[n, s]. cache (N, T, G, D), x (N, S, G, D), position i32 (1); "
           "y has the type of cache, which is that of x. S is at most T, and every place that is written must "
           "be less than T. It has no gradient.";
  }
  std::vector<Operand> operands() const override {
    return {{"cache"}, {"x"}, {"position", false, Kind::index}};
  }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.rank(0, 4);
    in.rank(1, 4);
    in.same_dtype(1, 0);
    check_position(in, 2);
    Shape written = in.shape(0);
    written[1] = in.shape(1)[1];
    in.shaped(1, written);
    in.require(written[1] <= in.shape(0)[1], "x must not be longer than the cache");
    return {inputs[0]};
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
};

class CacheMask final : public DecodingOp {
 public:
  std::string_view name() const override { return "cache_mask"; }
  std::string_view contract() const override {
    return "mask[0,0,s,t] = 0 where t <= position + s, else -inf: the mask of an attention of new tokens to a "
           "cache in which the first of them is at the place position. position i32 (1). Attributes queries: "
           "S, and keys: T. mask (1, 1, S, T) is f32, or f64 with attribute dtype (written by the precision "
           "policy fp64). It has no gradient.";
  }
  std::vector<Operand> operands() const override { return {{"position", false, Kind::index}}; }
  std::vector<std::string> attributes() const override { return {"queries", "keys", "dtype"}; }
  std::vector<Result> results() const override { return {{"mask"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_position(in, 0);
    const DType dtype = mask_dtype(in, attributes);
    const Shape mask{1, 1, count_attribute(in, attributes, "queries"),
                     count_attribute(in, attributes, "keys")};
    check_shape(mask);
    return {{dtype, mask}};
  }
};

class Advance final : public DecodingOp {
 public:
  std::string_view name() const override { return "advance"; }
  std::string_view contract() const override {
    return "y = position + by, an attribute: the place after the tokens of a step. position and y are i32 (1). "
           "It has no gradient.";
  }
  std::vector<Operand> operands() const override { return {{"position", false, Kind::index}}; }
  std::vector<std::string> attributes() const override { return {"by"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_position(in, 0);
    const std::int64_t by = count_attribute(in, attributes, "by");
    in.require(by <= 1 << 24, "attribute 'by' must be at most 2^24");
    return {inputs[0]};
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
};

}  // namespace

const Op& tokens_at_op() {
  static const TokensAt op;
  return op;
}
const Op& cache_write_op() {
  static const CacheWrite op;
  return op;
}
const Op& cache_mask_op() {
  static const CacheMask op;
  return op;
}
const Op& advance_op() {
  static const Advance op;
  return op;
}

}  // namespace assay
