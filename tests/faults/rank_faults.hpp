// The workers of several ranks, some of which go wrong.
#pragma once

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/conductor/process/survivors.hpp"
#include "harness/conductor/process/team.hpp"
#include "tests/faults/fault_plan.hpp"
#include "tests/temporary_folder.hpp"

namespace assay::test {

class RankFaults : public ::testing::Test {
 protected:
  // One worker for each mode of fault_worker.
  std::vector<ConversationPlan> plans(const std::vector<std::string>& modes, double seconds = 20) const {
    std::vector<ConversationPlan> all;
    for (const std::string& mode : modes) {
      all.push_back(fault_plan(folder_ / std::to_string(all.size()), mode));
      all.back().phase_seconds = seconds;
    }
    return all;
  }
  // The ranks compile and run, and then quit.
  ConversationResult talk_with(Team& team) {
    using protocol::Command;
    using protocol::Verb;
    std::vector<ConversationResult> results = team.converse({Command{Verb::compile}}, Afterwards::stay, {});
    note(results);
    if (joined(results).ok()) results = team.converse({Command{Verb::run}}, Afterwards::quit, {});
    return joined(results);
  }
  void note(const std::vector<ConversationResult>& results) {
    for (const ConversationResult& result : results)
      if (result.hello) processes_.push_back(std::stoi(result.hello->settings.at("process")));
  }
  // No worker that was noted.
  void expect_no_worker() const {
    for (const pid_t process : processes_) {
      EXPECT_EQ(::kill(process, 0), -1) << process;
      EXPECT_EQ(errno, ESRCH);
    }
  }

  SurvivorGuard guard_;
  const TemporaryFolder folder_;
  std::vector<pid_t> processes_;
};

}  // namespace assay::test
