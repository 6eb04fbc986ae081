#include "harness/worker/reset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RejectMoments, NamesAMomentThatSurvived) {
  std::vector<HostTensor> state = {HostTensor::zeros("fc.weight", {DType::f32, {4}}),
                                   HostTensor::zeros("fc.weight.m", {DType::f32, {4}}),
                                   HostTensor::zeros("fc.weight.v", {DType::f32, {4}})};
  state[0].as<float>()[1] = 1;
  state[1].as<float>()[0] = -0.0F;
  const std::vector<std::string> moments = {"m", "v"};
  EXPECT_NO_THROW(reject_moments(state, moments));
  state[2].as<float>()[3] = 1e-12F;
  EXPECT_THAT([&] { reject_moments(state, moments); },
              ThrowsMessage<Error>(HasSubstr("fc.weight.v is not zero")));
  EXPECT_NO_THROW(reject_moments(state, moments, state)) << "it was given";
}

}  // namespace
}  // namespace assay
