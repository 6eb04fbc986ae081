// The exams of a run: drawn, answered by the oracle, and kept out of reach of the workers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/check/exam.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/graph/program.hpp"

namespace assay {

struct ForkContext;

// An exam with its settings and digests for the report.
struct SetExam {
  Exam exam;
  CheckSettings settings;
  std::map<std::string, std::string> digests{};  // SHA-256 of its files by name
  std::string answers_digest{};                  // of the oracle's answers
};

// The exam of a cell in a round with that seed. timed: as Exams::of(). draw: of several with one seed.
ExamPlan exam_plan(const Cell& cell, std::uint64_t seed, bool timed, int draw = 0);

// Several threads may use it at a time.
class Exams {
 public:
  // folder: for the exams and their answers; created on first use.
  explicit Exams(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The exam of a cell; cells with the same program share it. Throws Error if the oracle does not answer; it
  // is asked only once, unless it was interrupted. The reference is valid as long as this object.
  // timed: for a fork that is timed, not only checked.
  const SetExam& of(const Cell& cell, std::uint64_t seed, bool timed, const ForkContext& context);

  // What the worker of a finished run without training is asked about it: question_of_run(). The question has no answers
  // yet; its files are removed with this object. Forks of one round are asked for the same slots and rows.
  RunResults ask_of_run(const Cell& cell, const Fork& fork, const std::filesystem::path& cell_folder);
  // Lets the oracle answer it. Throws Error if it does not answer.
  void answer(RunResults& asked, const Cell& cell, const ForkContext& context);

 private:
  struct Kept {
    std::optional<SetExam> set;
    std::string failure;  // why the exam is missing
  };

  std::filesystem::path folder_;
  std::uint64_t secret_ = std::random_device()();  // no worker can know what it is asked about its run
  std::mutex mutex_;                               // held while the oracle answers
  std::map<std::string, Kept> kept_;
};

// The SHA-256 of the files of up to `max_bytes` in a folder by name, without subfolders.
std::map<std::string, std::string> digests_of(const std::filesystem::path& folder,
                                              std::uintmax_t max_bytes = UINTMAX_MAX);

}  // namespace assay
