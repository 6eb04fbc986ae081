// request.json of a cell folder, and the JSON files of its exam.
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/protocol/exam_files.hpp"
#include "harness/protocol/request.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_request {
namespace {

void read_cell_request(const std::filesystem::path& file) {
  const CellRequest request = read_request(file);
  require(request.batch >= 1 && request.threads >= 1, "a cell has samples and threads");
  const std::filesystem::path again = scratch() / "request.json";
  const nlohmann::json written = encode(request);
  write_atomically(again, written.dump(), false);
  require(encode(read_request(again)) == written, "what is written again is the same");
}

void read_batches(const std::filesystem::path& file) {
  const ExamBatches batches = read_exam_batches(file);
  const std::int64_t samples = batches.count() * batches.distinct;
  require(samples >= batches.count(), "as many samples as can be counted");
  for (const std::int64_t row : batches.row_of)
    require(row >= 0 && row < batches.distinct, "a row is a sample");
}

void read_continuation(const std::filesystem::path& file) {
  const ExamContinuation continuation = read_exam_continuation(file);
  for (const double step_seconds : {1e-6, 1e-3, 10.0}) {
    const std::int64_t steps = continuation.steps(step_seconds);
    require(steps >= continuation.fewest && steps <= continuation.most, "steps are within the limits");
  }
}

void read_excerpt(const std::filesystem::path& file) {
  const ExamExcerpt excerpt = read_exam_excerpt(file);
  for (const std::int64_t size : {1, 7, 1'000'000}) {
    const std::int64_t first = excerpt.first(size), count = excerpt.count(size);
    require(first >= 0 && count >= 1 && first + count <= size, "an excerpt lies within the tensor");
  }
}

const Registration here("request", [](Input input) {
  const std::filesystem::path& file = file_with(input);
  for (const auto read : {read_batches, read_continuation, read_excerpt}) {
    try {
      read(file);
    } catch (const Error&) {
    }
  }
  read_cell_request(file);
});

}  // namespace
}  // namespace assay::fuzz::of_request
