// The settings of a whole run, as its options give them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/conductor/config/config.hpp"

namespace assay {

enum class Until {
  forks,  // until every cell has its forks
  clear,  // until the order of the cells is clear
};

enum class ForkStyle {
  fresh,     // a new process for every fork
  resident,  // one process for all forks of a cell
};

// The settings of the whole run.
struct RunSettings {
  int forks = 3;
  int spare_rounds = 1;  // for rounds in which the machine was disturbed
  Until until = Until::forks;
  ForkStyle fork_style = ForkStyle::fresh;
  double max_seconds = 0;    // of the whole run; 0: no limit
  int exams = 2;             // sets of questions that the rounds alternate between
  bool examine_all = false;  // also all later forks of a resident process
  std::uint64_t seed = 1;
  bool seed_per_round = true;
  double time_limit = 600;
  bool quick = false;
  bool profile = false;
  std::string roofline = "auto";
  std::vector<std::filesystem::path> data;
  std::filesystem::path weights;                   // published ones; empty: parameters are drawn
  std::map<std::string, std::string> environment;  // variables of the workers that measure

  // The seed of the parameters and plans of that round.
  std::uint64_t seed_of(int round) const {
    return seed_per_round ? seed + static_cast<std::uint64_t>(round) : seed;
  }
  // The seed of the exam of that round.
  std::uint64_t exam_seed_of(int round) const { return seed + static_cast<std::uint64_t>(round % exams); }
};
// Throws ConfigError for a variable that cannot be set.
RunSettings settings_of(const RunConfig& config);

}  // namespace assay
