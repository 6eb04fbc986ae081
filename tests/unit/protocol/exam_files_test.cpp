#include "harness/protocol/exam_files.hpp"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/protocol/request.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

ExamBatches batches_of(std::string_view text) {
  const TemporaryFolder folder;
  write_atomically(folder / "batches.json", text, false);
  return read_exam_batches(folder / "batches.json");
}

TEST(ExamBatches, HaveARowForEachSample) {
  const ExamBatches batches =
      batches_of(R"({"batch": 4, "distinct": 2, "row_of": [0, 1, 0, 1], "slots": [0, 0]})");
  EXPECT_EQ(batches.count(), 2);
  EXPECT_EQ(batches.repeats(), 2);
}

TEST(ExamBatches, RefuseMoreSamplesThanRows) {
  EXPECT_THROW(batches_of(R"({"batch": 1, "distinct": 9000000000000000000, "row_of": [0], "slots": [0, 0]})"),
               JsonError);
}

TEST(ExamContinuation, RefusesALengthThatIsNotFinite) {
  const TemporaryFolder folder;
  const auto file = folder / "continuation.json";
  write_atomically(file, R"({"seconds": 0.5, "fewest": 2, "most": 9})", false);
  EXPECT_EQ(read_exam_continuation(file).seconds, 0.5);
  write_atomically(file, R"({"seconds": null, "not_finite": {"seconds": "nan"}, "fewest": 2, "most": 9})",
                   false);
  EXPECT_THROW(read_exam_continuation(file), JsonError);
}

TEST(ExamExcerpt, LiesWithinEachTensor) {
  const ExamExcerpt all{.elements = 10, .at = 1};
  EXPECT_EQ(all.count(3), 3);
  EXPECT_EQ(all.first(3), 0);
  EXPECT_EQ(all.first(10), 0);
  EXPECT_EQ(all.first(12), 2);
  EXPECT_EQ((ExamExcerpt{.elements = 10, .at = 0}.first(100)), 0);
  EXPECT_EQ((ExamExcerpt{.elements = 10, .at = 0.5}.first(100)), 45);
}

TEST(ExamExcerpt, RefusesAPlaceOutside) {
  const TemporaryFolder folder;
  const auto file = folder / "excerpt.json";
  write_atomically(file, R"({"elements": 9, "at": 0.25})", false);
  EXPECT_EQ(read_exam_excerpt(file).at, 0.25);
  for (const char* text : {R"({"elements": 9, "at": 1.5})", R"({"elements": 0, "at": 0.25})"}) {
    write_atomically(file, text, false);
    EXPECT_THROW(read_exam_excerpt(file), JsonError) << text;
  }
}

TEST(CellRequest, RefusesALengthThatIsNotFinite) {
  const TemporaryFolder folder;
  const auto file = folder / "request.json";
  const auto clock_of = [](std::string_view block) {
    return R"({"protocol": 1, "task": "train", "mode": "graph", "precision": "fp32", "batch": 4,
               "clock": {"kind": "steps", )" +
           std::string(block) + "}}";
  };
  write_atomically(file, clock_of(R"("block_seconds": 0.5)"), false);
  EXPECT_EQ(read_request(file).clock->block_seconds, 0.5);
  write_atomically(file, clock_of(R"("block_seconds": null, "not_finite": {"block_seconds": "inf"})"), false);
  EXPECT_THROW(read_request(file), JsonError);
}

}  // namespace
}  // namespace assay
