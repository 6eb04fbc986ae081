// What the backend decides about a GPU without one.
#include "backends/cuda/library.hpp"

#include <gtest/gtest.h>

#include "backends/cuda/workspace.hpp"

namespace assay::cuda {
namespace {

TEST(Fallbacks, AreCountedByKind) {
  Fallbacks fallbacks;
  EXPECT_EQ(fallbacks.text(), "none");
  fallbacks.add("matmul");
  fallbacks.add("lstm");
  fallbacks.add("matmul");
  EXPECT_EQ(fallbacks.text(), "lstm 1, matmul 2");
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
