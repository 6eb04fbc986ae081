// One fork of a cell: the check before timing, and the timed one with its verification.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/run/cell_folder.hpp"

namespace assay {

// A folder of this process that goes when this does.
class Scratch {
 public:
  // keep: it stays, for those who look for a fault.
  Scratch(std::filesystem::path path, bool keep);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool keep_;
};

// A worker that stays for the later forks of its cell, with its folder.
struct ResidentWorker {
  std::unique_ptr<Scratch> folder;
  Worker worker;
};

// An exam with what the report says of it.
struct SetExam {
  Exam exam;
  CheckSettings settings;
  double seconds = 0;  // that the oracle took to answer; 0 where its answers were there
};

// The exams of a run: of two cells of one program the second finds those of the first.
struct ExamShelf {
  std::mutex mutex{};  // held while the oracle answers
  std::map<std::string, SetExam> sets{};
};

// What all forks of a run share. Borrows everything.
struct ForkContext {
  std::filesystem::path scratch;  // cell folders are made in it and removed after the fork
  const BackendRegistry& registry;
  const RunSettings& settings;
  DatasetShelf& data;
  ConversationWatch watch;
  bool keep_folders = false;
  // When the conversations of a fork must be over; absent: their phases have limits alone.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  int lane = 0;  // of checks side by side, from 0
  std::shared_ptr<ExamShelf> exams = std::make_shared<ExamShelf>();
};

struct CheckOutcome {
  Status status = Status::failed;  // ok: the check ran and passed, or there is no oracle to ask
  std::string reason;
  std::string log_tail;
  Equivalence equivalence;
  std::optional<protocol::Hello> hello;
  TimeSpent spent;
};
// Whether the cell is checked in a process of its own before it is timed: an epoch is timed from a cold start, and may
// take hours. Otherwise its forks are, behind their timed steps.
bool is_checked_before(const Cell& cell);
// What that check depends on: two cells of a run with one subject would be asked and judged alike.
std::string check_subject(const Cell& cell, const Program& program);
// Starts the cell's backend to sit the exam without timed steps, and the oracle where its answers are not there.
// Several threads may call it at a time, each for another cell and with a context of its own.
CheckOutcome check_cell(const Cell& cell, const Program& program, const ForkContext& context);

struct TimedOutcome {
  Fork fork;
  Equivalence verified;  // of the executable that was timed
  std::optional<protocol::Hello> hello;
};
// Round r has the seed settings.seed + r, and every second round the same exam. With ForkStyle::resident the fork uses the worker that `resident` holds, or starts one, and leaves it there if all went well; nullptr: no worker
// stays.
TimedOutcome time_cell(const Cell& cell, int round, const ForkContext& context,
                       std::optional<ResidentWorker>* resident);

// The tensors of both, the worse of two verdicts where one name stands twice.
Equivalence merged(const Equivalence& a, const Equivalence& b);

}  // namespace assay
