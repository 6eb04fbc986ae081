// The exams of a run: drawn, answered by the oracle, and kept where no worker has any business.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/graph/program.hpp"

namespace assay {

struct ForkContext;

// An exam with what the report says of it.
struct SetExam {
  Exam exam;
  CheckSettings settings;
  std::map<std::string, std::string> digests{};  // SHA-256 of its files, by name
  std::string answers_digest{};                  // of the oracle's answers
};

// Several threads may use it at a time.
class Exams {
 public:
  // folder: for the exams and their answers; made on first use.
  explicit Exams(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The exam of a cell; of two cells of one program the second finds that of the first. Throws Error when the oracle
  // does not answer, which it is asked only once unless it was interrupted. The reference lives as long as this.
  const SetExam& of(const Cell& cell, const Program& program, std::uint64_t seed, const ForkContext& context);

 private:
  struct Kept {
    std::optional<SetExam> set;
    std::string failure;  // why there is none
  };

  std::filesystem::path folder_;
  std::mutex mutex_;  // held while the oracle answers
  std::map<std::string, Kept> kept_;
};

// By name, the SHA-256 of the files of a folder, without its folders.
std::map<std::string, std::string> digests_of(const std::filesystem::path& folder);

}  // namespace assay
