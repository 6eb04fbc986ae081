#include "harness/core/text.hpp"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(DurationText, reads_well_at_every_size) {
  EXPECT_EQ(duration_text(2.13e-3), "2.13 ms");
  EXPECT_EQ(duration_text(5e-5), "50 us");
  EXPECT_EQ(duration_text(41), "41 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(7260), "2 h 1 min");
}

}  // namespace
}  // namespace assay
