#include "harness/graph/memory_plan/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace {

using testing::ElementsAre;

TEST(Placement, a_buffer_that_no_step_names_has_no_place) {
  const std::vector<PlannedBuffer> buffers{{100}, {100, false}, {64}};
  const std::vector<PlannedStep> steps{{.inputs = {1}, .outputs = {2, -1}}};
  const Placement placement = place(buffers, steps, Sharing::co_share);
  EXPECT_THAT(placement.offset, ElementsAre(-1, -1, 0));
  EXPECT_EQ(placement.bytes, 64);
}

TEST(Placement, nothing_needs_nothing) {
  const Placement placement = place({}, {}, Sharing::co_share);
  EXPECT_EQ(placement.bytes, 0);
  EXPECT_EQ(placement.lower_bound, 0);
}

TEST(Placement, the_smallest_gap_that_fits_is_taken) {
  // The large one comes first, the second next to it; the third fits where the large one was.
  const std::vector<PlannedBuffer> buffers{{64, true, true}, {640}, {128}, {128}};
  const std::vector<PlannedStep> steps{
      {.outputs = {0, 1}}, {.inputs = {1}, .outputs = {2}}, {.inputs = {2}, .outputs = {3}}};
  const Placement placement = place(buffers, steps, Sharing::co_share);
  EXPECT_EQ(placement.bytes, 640 + 128 + 64);
  EXPECT_EQ(placement.lower_bound, placement.bytes);
  EXPECT_EQ(placement.offset[3], 0);
}

TEST(Placement, scratch_lives_for_one_step) {
  const std::vector<PlannedBuffer> buffers{{64}, {64}, {64, true, true}};
  const std::vector<PlannedStep> steps{{.outputs = {0}, .scratch = 1000},
                                       {.inputs = {0}, .outputs = {1}, .scratch = 1000},
                                       {.inputs = {1}, .outputs = {2}, .scratch = 0}};
  const Placement shared = place(buffers, steps, Sharing::co_share);
  EXPECT_EQ(shared.bytes, 1024 + 2 * 64);
  EXPECT_EQ(shared.scratch_offset[0], shared.scratch_offset[1]);
  EXPECT_EQ(shared.scratch_offset[2], -1);
  EXPECT_EQ(place(buffers, steps, Sharing::naive).bytes, 2 * 1024 + 3 * 64);
}

TEST(Placement, bytes_stay_unused_for_the_reuse_distance) {
  const std::vector<PlannedBuffer> buffers{{64}, {64}, {64}, {64}};
  const std::vector<PlannedStep> steps{{.outputs = {0}, .scratch = 64},
                                       {.inputs = {0}, .outputs = {1}},
                                       {.inputs = {1}, .outputs = {2}, .scratch = 64},
                                       {.inputs = {2}, .outputs = {3}}};
  const auto bytes = [&](std::int64_t distance) {
    return place(buffers, steps, Sharing::co_share, arena_alignment, distance).bytes;
  };
  EXPECT_EQ(bytes(0), 3 * 64);
  EXPECT_GT(bytes(1), bytes(0));
  EXPECT_EQ(bytes(9), 6 * 64) << "nothing is used twice";
}

TEST(Placement, a_result_overwrites_its_operand_whatever_the_reuse_distance) {
  const std::vector<PlannedBuffer> buffers{{64}, {64}};
  const std::vector<PlannedStep> steps{{.outputs = {0}},
                                       {.inputs = {0}, .outputs = {1}, .in_place = {{0, 0}}}};
  EXPECT_EQ(place(buffers, steps, Sharing::co_share, arena_alignment, 9).bytes, 64);
}

TEST(Placement, aligns_buffers_and_scratch_as_asked) {
  const std::vector<PlannedBuffer> buffers{{64}, {300}, {64, true, true}};
  const std::vector<PlannedStep> steps{{.outputs = {0}, .scratch = 10},
                                       {.inputs = {0}, .outputs = {1}, .scratch = 1000},
                                       {.inputs = {1}, .outputs = {2}, .scratch = 65}};
  for (const Sharing sharing : {Sharing::naive, Sharing::in_place, Sharing::co_share}) {
    const Placement placement = place(buffers, steps, sharing, 256);
    for (const std::int64_t offset : placement.offset) EXPECT_EQ(offset % 256, 0) << to_string(sharing);
    for (const std::int64_t offset : placement.scratch_offset)
      EXPECT_EQ(offset % 256, 0) << to_string(sharing);
  }
  EXPECT_EQ(place(buffers, steps, Sharing::naive, 256).bytes, 256 + 512 + 256 + 256 + 1024 + 256);
}

TEST(Placement, a_kept_buffer_is_not_written_over) {
  const std::vector<PlannedBuffer> buffers{{64, true, true}, {64}};
  const std::vector<PlannedStep> steps{{.outputs = {0}},
                                       {.inputs = {0}, .outputs = {1}, .in_place = {{0, 0}}}};
  const Placement placement = place(buffers, steps, Sharing::co_share);
  EXPECT_EQ(placement.bytes, 128);
  EXPECT_NE(placement.offset[0], placement.offset[1]);
}

TEST(Placement, a_larger_result_is_not_written_over_a_smaller_operand) {
  const std::vector<PlannedBuffer> buffers{{64}, {128}};
  const std::vector<PlannedStep> steps{{.outputs = {0}},
                                       {.inputs = {0}, .outputs = {1}, .in_place = {{0, 0}}}};
  EXPECT_EQ(place(buffers, steps, Sharing::in_place).bytes, 64 + 128);
}

TEST(Placement, two_results_do_not_share_one_dying_operand) {
  const std::vector<PlannedBuffer> buffers{{64}, {64}, {64}};
  const std::vector<PlannedStep> steps{{.outputs = {0}},
                                       {.inputs = {0}, .outputs = {1, 2}, .in_place = {{0, 0}, {1, 0}}}};
  const Placement placement = place(buffers, steps, Sharing::co_share);
  EXPECT_EQ(placement.storage[1], 0);
  EXPECT_EQ(placement.storage[2], 2);
  EXPECT_EQ(placement.bytes, 128);
}

}  // namespace
}  // namespace assay
