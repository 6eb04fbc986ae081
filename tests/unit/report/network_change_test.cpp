#include "harness/report/network_change.hpp"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(NetworkChange, IsAnotherDigestOfOneName) {
  EXPECT_EQ(imported_name("resnet50@1f3a9c2e"), "resnet50");
  EXPECT_EQ(imported_name("resnet50"), "");
  const auto change = changed_network({"lenet5", "a@11111111", "b@22222222"}, {"lenet5", "b@33333333"});
  ASSERT_TRUE(change);
  EXPECT_EQ(change->before, "b@22222222");
  EXPECT_EQ(change->now, "b@33333333");
}

TEST(NetworkChange, IsNotAnotherNameNorOneMoreNetwork) {
  EXPECT_FALSE(changed_network({"resnet50", "a@11111111"}, {"resnet50", "a@11111111"}));
  EXPECT_FALSE(changed_network({"resnet50"}, {"resnet50@11111111"}));
  EXPECT_FALSE(changed_network({"a@11111111"}, {"b@11111111", "c@22222222"}));
  EXPECT_FALSE(changed_network({"a@11111111", "a@22222222"}, {"a@22222222"}));
}

}  // namespace
}  // namespace assay
