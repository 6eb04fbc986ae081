#include "harness/protocol/exam_files.hpp"

#include <string_view>

#include <gtest/gtest.h>

#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/strict_json.hpp"
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

}  // namespace
}  // namespace assay
