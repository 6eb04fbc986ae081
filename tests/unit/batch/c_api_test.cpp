#include "harness/batch/c_api.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/batch/cell_fixture.hpp"

extern "C" int assay_test_run_cell(const char* cell_folder);

namespace assay {
namespace {

using testing::HasSubstr;

TEST(BatchLibrary, is_driven_from_C) {
  const Cell cell;
  EXPECT_EQ(assay_test_run_cell(cell.path().c_str()), 2);
  EXPECT_EQ(cell.results()["complete"], true);
  EXPECT_EQ(cell.results()["evaluations"][0]["samples"], 10);
}

TEST(BatchLibrary, refuses_null_pointers_with_a_message) {
  const Cell cell;
  EXPECT_EQ(assay_open(nullptr), nullptr);
  EXPECT_THAT(assay_last_error(), HasSubstr("null cell folder"));
  EXPECT_EQ(assay_close(nullptr), 0);
  assay_block block = {};
  EXPECT_EQ(assay_next_block(nullptr, &block), -1);
  EXPECT_THAT(assay_last_error(), HasSubstr("null supply"));
  EXPECT_EQ(assay_schedule(nullptr), nullptr);
  assay_supply* supply = assay_open(cell.path().c_str());
  ASSERT_NE(supply, nullptr) << assay_last_error();
  float inputs[48];
  std::int32_t labels[4];
  std::int64_t number = 0;
  EXPECT_EQ(assay_get_layout(supply, nullptr), -1);
  EXPECT_EQ(assay_next_block(supply, nullptr), -1);
  EXPECT_EQ(assay_next_batch(supply, nullptr, labels), -1);
  EXPECT_EQ(assay_next_batch(supply, inputs, nullptr), -1);
  EXPECT_EQ(assay_read_resident(supply, 0, nullptr, labels), -1);
  EXPECT_EQ(assay_add_logits(supply, nullptr), -1);
  EXPECT_EQ(assay_progress(supply, nullptr, &number), -1);
  EXPECT_THAT(assay_last_error(), HasSubstr("assay_progress"));
  EXPECT_EQ(assay_close(supply), 0);
}

TEST(BatchLibrary, refuses_calls_out_of_turn_and_nonsense) {
  const Cell cell;
  assay_supply* supply = assay_open(cell.path().c_str());
  ASSERT_NE(supply, nullptr);
  float inputs[48];
  std::int32_t labels[4];
  EXPECT_EQ(assay_end_block(supply, 0), -1);
  EXPECT_THAT(assay_last_error(), HasSubstr("assay_next_block first"));
  EXPECT_EQ(assay_lap(supply), -1);
  EXPECT_EQ(assay_lap_prefill(supply), -1);
  EXPECT_EQ(assay_enqueued(supply), -1);
  EXPECT_THAT(assay_last_error(), HasSubstr("no block of steps is open"));
  EXPECT_EQ(assay_next_batch(supply, inputs, labels), -1);
  for (const std::int64_t slot : {std::int64_t{-1}, std::int64_t{1} << 62, std::int64_t{7}})
    EXPECT_EQ(assay_read_resident(supply, slot, inputs, labels), -1);
  EXPECT_EQ(assay_close(supply), 0);
}

TEST(BatchLibrary, knows_a_supply_that_was_closed) {
  const Cell cell;
  assay_supply* supply = assay_open(cell.path().c_str());
  ASSERT_EQ(assay_close(supply), 0);
  EXPECT_EQ(assay_close(supply), -1);
  EXPECT_THAT(assay_last_error(), HasSubstr("not open"));
  assay_layout layout;
  EXPECT_EQ(assay_get_layout(supply, &layout), -1);
}

TEST(BatchLibrary, reports_errors_in_a_folder) {
  EXPECT_EQ(assay_open("/nowhere"), nullptr);
  EXPECT_THAT(assay_last_error(), HasSubstr("/nowhere/request.json"));
  EXPECT_THAT(assay_last_error(), HasSubstr("no such file"));
  EXPECT_EQ(assay_open(""), nullptr);
  EXPECT_EQ(assay_open(std::string(100'000, 'x').c_str()), nullptr);
}

TEST(BatchLibrary, keeps_the_last_error_of_each_thread_apart) {
  assay_open("/nowhere");
  const std::string mine = assay_last_error();
  std::thread([] { EXPECT_STREQ(assay_last_error(), ""); }).join();
  EXPECT_EQ(assay_last_error(), mine);
}

TEST(BatchLibrary, says_when_the_results_cannot_be_written) {
  const Cell cell;
  assay_supply* supply = assay_open(cell.path().c_str());
  assay_block block = {};
  float inputs[48];
  std::int32_t labels[4];
  ASSERT_EQ(assay_next_block(supply, &block), 0);
  for (std::int64_t i = 0; i < block.steps; ++i) ASSERT_EQ(assay_next_batch(supply, inputs, labels), 4);
  ASSERT_EQ(assay_end_block(supply, 0), 0);
  write_atomically(cell.folder / "results", "a file where a folder should be");
  EXPECT_EQ(assay_close(supply), -1);
  EXPECT_THAT(assay_last_error(), HasSubstr("results"));
}

TEST(BatchLibrary, survives_a_close_in_the_middle_of_a_block) {
  for (int round = 0; round < 50; ++round) {
    Cell cell;
    cell.request["loader"] = {{"kind", "harness"}, {"workers", 4}, {"prefetch", 2}};
    cell.save_request();
    assay_supply* supply = assay_open(cell.path().c_str());
    assay_block block = {};
    ASSERT_EQ(assay_next_block(supply, &block), 0);
    float inputs[48];
    std::int32_t labels[4];
    for (int i = 0; i < round % 3; ++i) assay_next_batch(supply, inputs, labels);
    EXPECT_EQ(assay_close(supply), 0);
  }
}

}  // namespace
}  // namespace assay
