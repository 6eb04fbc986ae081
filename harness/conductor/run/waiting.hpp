// Whether the waiting OpenMP threads of the next fork sleep. On a busy machine threads that spin may keep the processors
// from the threads that they wait for, and a step takes a hundred times as long. Forks whose threads sleep have the flag
// passive and do not count, so this decides only about forks of which no rank can come.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

class Waiting {
 public:
  // compared: the number of cells that are compared.
  explicit Waiting(std::size_t compared);

  // A fork that is ok.
  void note(std::size_t cell, const Fork& fork);
  // A fork was ended because it would have taken too long while its threads waited for a processor.
  void note_starved(std::size_t cell) { starved_.insert(cell); }

  // True for a starved cell, until a fork is not disturbed. Else only while every one of the last forks, as many as cells
  // are compared (2 to 8), was disturbed: once, if the threads of the cell waited for a processor for a quarter of the time; then if
  // the cell was faster so.
  bool sleeps(std::size_t cell) const;

 private:
  bool is_busy() const;

  std::size_t compared_;
  std::vector<bool> disturbed_;  // the last forks
  std::set<std::size_t> starved_;
  struct Times {
    std::vector<double> own{}, passive{};  // seconds of a step, of disturbed forks
    bool waited = false;                   // the last fork of `own`
  };
  std::map<std::size_t, Times> times_;
};

// The time in which the fork's threads were ready and had no processor, over the time in which it was timed; 0 if unknown.
double waited_share(const Fork& fork);

}  // namespace assay
