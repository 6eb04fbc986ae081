#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/report/invariants.hpp"
#include "harness/report/status.hpp"

namespace assay {
namespace {

TEST(ReasonCodes, each_has_one_row_and_a_status_that_is_not_ok) {
  std::set<ReasonCode> seen;
  for (const ReasonInfo& info : reason_table) {
    EXPECT_TRUE(seen.insert(info.code).second) << to_string(info.code);
    EXPECT_NE(info.status, Status::ok) << to_string(info.code);
    EXPECT_FALSE(info.meaning.empty()) << to_string(info.code);
  }
  EXPECT_EQ(seen.size() + 1, words<ReasonCode>.size()) << "every code but `none`";
  EXPECT_EQ(status_of(ReasonCode::absent), Status::ok);
}

TEST(ReasonCodes, every_status_but_ok_has_one) {
  std::set<Status> seen;
  for (const ReasonInfo& info : reason_table) seen.insert(info.status);
  EXPECT_EQ(seen.size() + 1, words<Status>.size());
}

TEST(ReasonCodes, set_the_status_with_the_text) {
  Fork fork;
  end_with(fork, ReasonCode::time_limit, "no answer");
  EXPECT_EQ(fork.status, Status::timed_out);
  EXPECT_EQ(fork.reason, "no answer");
  CellReport cell;
  end_like(cell, fork);
  EXPECT_EQ(cell.status, Status::timed_out);
  EXPECT_EQ(cell.reason_code, ReasonCode::time_limit);
}

TEST(ReasonCodes, CodeOfAnotherStatusBreaksAnInvariant) {
  Violations violations("fork");
  validate_code(violations, Status::crashed, ReasonCode::time_limit);
  EXPECT_THAT(violations.found(),
              ::testing::ElementsAre(::testing::HasSubstr("'time_limit', which means timed_out")));
  Violations none("fork");
  validate_code(none, Status::timed_out, ReasonCode::time_limit);
  validate_code(none, Status::timed_out, ReasonCode::absent);
  EXPECT_THAT(none.found(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace assay
