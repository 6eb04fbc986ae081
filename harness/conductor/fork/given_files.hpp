// The files that a worker gets and is judged by; it must not change them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/conductor/fork/exams.hpp"

namespace assay {

// Of the operands of a single op and the plans of epochs, those of up to 32 MiB: a larger file takes too long to read
// before and after each fork.
class GivenFiles {
 public:
  // For a cell folder that was written for an exam, which must outlive it. `place`: one of several ranks has an exam of its own.
  GivenFiles(const std::filesystem::path& folder, const SetExam& set, const RankPlace& place);

  // Describes the changed file; empty if none was changed.
  std::string changed() const;

 private:
  using Digests = std::map<std::string, std::string>;

  static Digests digests_of_small(const std::filesystem::path& folder);
  std::string first_change(const Digests& given, const std::filesystem::path& folder) const;

  std::filesystem::path folder_;
  const SetExam& set_;
  Digests own_, data_, exam_;
};

}  // namespace assay
