// What the backend decides about a GPU without one.
#include "backends/cuda/library.hpp"
#include "backends/cuda/choices.hpp"

#include <gtest/gtest.h>

#include "backends/cuda/workspace.hpp"

namespace assay::cuda {
namespace {

TEST(Choices, CountTheirFallbacksByKind) {
  Choices choices;
  EXPECT_EQ(choices.fallbacks(), "none");
  choices.fall_back("matmul");
  choices.fall_back("lstm");
  choices.fall_back("matmul");
  EXPECT_EQ(choices.fallbacks(), "lstm 1, matmul 2");
}

TEST(Choices, HaveOneTextIfTheEnginesAreTheSame) {
  Choices one, other;
  EXPECT_EQ(one.engines(), "none");
  one.take("a", "engine 1");
  one.take("b", "engine 2");
  other.take("b", "engine 2");
  EXPECT_NE(one.engines(), other.engines());
  other.take("a", "engine 1");
  EXPECT_EQ(one.engines(), other.engines());
  EXPECT_NE(one.engines().find(" of 2"), std::string::npos);
  other.take("a", "engine 3");
  EXPECT_NE(one.engines(), other.engines());
  EXPECT_EQ(one.refused(), "none");
  one.refuse("engine 7", "a", 1, 1e-5);
  EXPECT_EQ(one.refused(), "engine 7");
}

TEST(Choices, ForgetWhatATrialTook) {
  Choices choices;
  choices.take("a", "engine 1");
  const std::string before = choices.engines();
  const Choices::Taken taken = choices.taken();
  choices.take("b", "engine 2:measured");
  choices.fall_back("matmul");
  choices.forget_since(taken);
  EXPECT_EQ(choices.engines(), before);
  EXPECT_EQ(choices.fallbacks(), "none");
  EXPECT_EQ(choices.given("b"), "engine 2:measured") << "what was measured stays known";
}

// A choice is kept by its text.
TEST(Specs, HaveTextsOfTheirOwn) {
  MatmulSpec product = row_major_product(4, 8, 16, false, true), other = product;
  EXPECT_EQ(text_of(product), text_of(other));
  other.stride_b = 7;
  EXPECT_NE(text_of(product), text_of(other));
  other = product;
  other.accumulate = true;
  EXPECT_NE(text_of(product), text_of(other));
  ConvolutionSpec convolution, wider;
  wider.columns.dilation = 2;
  EXPECT_NE(text_of(convolution), text_of(wider));
  wider = convolution;
  wider.kind = ConvolutionSpec::Kind::weight_gradient;
  EXPECT_NE(text_of(convolution), text_of(wider));
  NormSpec norm, masked, nearer;
  masked.mask = true;
  nearer.epsilon = 1e-5F;
  EXPECT_NE(text_of(norm), text_of(masked));
  EXPECT_NE(text_of(norm), text_of(nearer));
  LstmSpec lstm, trained;
  trained.training = true;
  EXPECT_NE(text_of(lstm), text_of(trained));
}

TEST(Precisions, AreRefusedByNameOnGpusWithoutThem) {
  for (const PrecisionKind kind : {PrecisionKind::bf16, PrecisionKind::tf32}) {
    EXPECT_NE(reason_against(kind, 7, 5).find(to_string(kind)), std::string::npos);
    EXPECT_EQ(reason_against(kind, 8, 0), "");
    EXPECT_EQ(reason_against(kind, 12, 0), "");
  }
  EXPECT_EQ(reason_against(PrecisionKind::fp32, 7, 5), "");
}

TEST(Workspace, MustBeAlignedUnlessItIsEmpty) {
  alignas(workspace_alignment) std::byte bytes[2 * workspace_alignment];
  EXPECT_NO_THROW(check_workspace("test", bytes + workspace_alignment, 1));
  EXPECT_NO_THROW(check_workspace("test", bytes + 64, 0));
  EXPECT_THROW(check_workspace("test", bytes + 64, 1), std::logic_error);
  EXPECT_THROW(check_workspace("test", bytes + 128, 1), std::logic_error);
}

}  // namespace
}  // namespace assay::cuda
