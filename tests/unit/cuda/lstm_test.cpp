// The parameters of an LSTM in a buffer whose order the vendor's library chooses.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "backends/cuda/own_lstm.hpp"

namespace assay::cuda {
namespace {

constexpr std::int64_t units = 3, features = 2;

// Biases first, the gates backwards, a gap of one element in front of each part.
LstmPacking backwards() {
  LstmPacking packing{units, features, {}, {}, {}};
  std::int64_t at = 0;
  const auto part = [&](std::int64_t elements) {
    const std::int64_t begin = at + 1;
    at = begin + elements;
    return begin;
  };
  for (std::size_t gate = 4; gate-- > 0;) packing.bias[gate] = part(units);
  for (std::size_t gate = 4; gate-- > 0;) packing.recurrent[gate] = part(units * units);
  for (std::size_t gate = 4; gate-- > 0;) packing.weight[gate] = part(units * features);
  return packing;
}

constexpr std::size_t packed_size = 4 * units * (features + units + 1) + 12;

struct Parameters {
  std::vector<float> weight = std::vector<float>(4 * units * features);
  std::vector<float> recurrent = std::vector<float>(4 * units * units);
  std::vector<float> bias = std::vector<float>(4 * units);
  void count() {
    std::iota(weight.begin(), weight.end(), 100.0F);
    std::iota(recurrent.begin(), recurrent.end(), 200.0F);
    std::iota(bias.begin(), bias.end(), 300.0F);
  }
};

TEST(LstmPacking, puts_each_gate_where_it_is_asked_for) {
  Parameters from;
  from.count();
  std::vector<float> packed(packed_size, -1);
  const LstmPacking packing = backwards();
  pack_lstm({}, DType::f32, DType::f32, packing,
            {nullptr, from.weight.data(), from.recurrent.data(), from.bias.data()}, packed.data());
  EXPECT_EQ(std::ranges::count(packed, -1.0F), 12) << "the gaps";
  for (std::size_t gate = 0; gate < 4; ++gate) {
    const auto begins = [&](std::int64_t at) { return packed[static_cast<std::size_t>(at)]; };
    EXPECT_EQ(begins(packing.weight[gate]), from.weight[gate * units * features]);
    EXPECT_EQ(begins(packing.recurrent[gate]), from.recurrent[gate * units * units]);
    EXPECT_EQ(begins(packing.bias[gate]), from.bias[gate * units]);
    EXPECT_EQ(begins(packing.recurrent[gate] + units * units - 1),
              from.recurrent[(gate + 1) * units * units - 1]);
  }
}

TEST(LstmPacking, IsRefusedIfPartsOverlapOrLieOutside) {
  const auto elements = static_cast<std::int64_t>(packed_size);
  EXPECT_NO_THROW(check_packing(backwards(), elements));
  EXPECT_THROW(check_packing(backwards(), elements - 1), std::runtime_error) << "the last part is cut";
  LstmPacking missing = backwards(), overlapping = backwards();
  missing.bias[2] = -(std::int64_t{1} << 38);  // a null address in a buffer that does not begin at 0
  EXPECT_THROW(check_packing(missing, elements), std::runtime_error);
  overlapping.recurrent[1] = overlapping.recurrent[0] + 1;
  EXPECT_THROW(check_packing(overlapping, elements), std::runtime_error);
}

TEST(LstmPacking, comes_back_as_it_went) {
  Parameters from, to;
  from.count();
  std::vector<float> packed(packed_size);
  pack_lstm({}, DType::f32, DType::f32, backwards(),
            {nullptr, from.weight.data(), from.recurrent.data(), from.bias.data()}, packed.data());
  unpack_lstm({}, DType::f32, backwards(), packed.data(),
              {nullptr, to.weight.data(), to.recurrent.data(), to.bias.data()});
  EXPECT_EQ(to.weight, from.weight);
  EXPECT_EQ(to.recurrent, from.recurrent);
  EXPECT_EQ(to.bias, from.bias);
}

TEST(LstmPacking, narrows_the_bias_and_widens_the_gradients) {
  const std::vector<Bf16> weight(4 * units * features, narrow<Bf16>(1.5F));
  const std::vector<Bf16> recurrent(4 * units * units, narrow<Bf16>(2.5F));
  const std::vector<float> bias(4 * units, 1.001F);  // which bf16 does not have
  std::vector<Bf16> packed(packed_size);
  pack_lstm({}, DType::bf16, DType::bf16, backwards(),
            {nullptr, weight.data(), recurrent.data(), bias.data()}, packed.data());
  Parameters to;
  unpack_lstm({}, DType::bf16, backwards(), packed.data(),
              {nullptr, to.weight.data(), to.recurrent.data(), to.bias.data()});
  EXPECT_EQ(to.weight, std::vector<float>(weight.size(), 1.5F));
  EXPECT_EQ(to.recurrent, std::vector<float>(recurrent.size(), 2.5F));
  EXPECT_EQ(to.bias, std::vector<float>(bias.size(), 1.0F));
}

TEST(SwapOuter, Converts) {
  const std::vector<float> from{1, 2, 3, 4, 5, 6};
  std::vector<std::uint16_t> narrow(6);
  std::vector<float> back(6);
  swap_outer({}, DType::f32, DType::bf16, from.data(), narrow.data(), 2, 3, 1);
  swap_outer({}, DType::bf16, DType::f32, narrow.data(), back.data(), 1, 6, 1);
  EXPECT_EQ(back, (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(SwapOuter, ReordersRowsOfAnySize) {
  for (const std::int64_t row : {std::int64_t{8}, std::int64_t{3}}) {
    std::vector<float> from(static_cast<std::size_t>(2 * 5 * row)), to(from.size(), -1);
    std::iota(from.begin(), from.end(), 0.0F);
    swap_outer({}, DType::f32, DType::f32, from.data(), to.data(), 2, 5, row);
    for (std::int64_t a = 0; a < 2; ++a) {
      for (std::int64_t b = 0; b < 5; ++b) {
        for (std::int64_t e = 0; e < row; ++e)
          EXPECT_EQ(to[static_cast<std::size_t>((b * 2 + a) * row + e)],
                    from[static_cast<std::size_t>((a * 5 + b) * row + e)]);
      }
    }
  }
}

}  // namespace
}  // namespace assay::cuda
