// A worker's answers to a whole exam, against the oracle's.
#include <cmath>
#include <memory>

#include "tests/fuzz/fuzz.hpp"
#include "tests/unit/conductor/check/answered_exam.hpp"

namespace assay::fuzz::of_verdict {
namespace {

const Registration here("verdict", [](Input input) {
  static const auto exam = [] {
    auto made = std::make_unique<AnsweredExam>();
    made->write();
    return made;
  }();
  const Equivalence verdict = judge(exam->exam(), exam->program(), file_with(input));
  require(verdict.checked, "every file of a worker is judged");
  require(std::isfinite(verdict.worst) && verdict.worst >= 0, "the worst ratio is a number");
  require(verdict.passed == verdict.reason.empty(), "what did not pass has a reason");
  for (const TensorVerdict& tensor : verdict.tensors) {
    require(std::isfinite(tensor.ratio), "a ratio is a number");
    require(!verdict.passed || tensor.ratio <= 1, "what passed is within its bounds");
  }
});

}  // namespace
}  // namespace assay::fuzz::of_verdict
