#include "tests/simulation/noise.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "harness/core/json/decode.hpp"
#include "harness/core/statistics.hpp"
#include "harness/report/axes_json.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/report_fields.hpp"

namespace assay::simulation {
namespace {

struct RecordedFork {
  int round = 0;
  std::vector<std::string> flags{};
  std::optional<CorePlacement> placement{};
  std::vector<std::int64_t> blocks{};
};
inline Description describe(Of<RecordedFork>) {
  return fields(
      "fork", "A fork that was ok.", field("round", &RecordedFork::round, "Its round."),
      field("flags", &RecordedFork::flags, "Its own.").left_out_by_default(),
      field("placement", &RecordedFork::placement, "Readings of its processors.").left_out_by_default(),
      field("blocks", &RecordedFork::blocks, "Nanoseconds a step of its timed blocks.").not_empty());
}
struct RecordedCell {
  Axes axes{};
  std::vector<RecordedFork> forks{};
};
inline Description describe(Of<RecordedCell>) {
  return fields("cell", "Times of one cell.", field("axes", &RecordedCell::axes, "What it is."),
                field("forks", &RecordedCell::forks, "In the order of time."));
}
struct RecordedSession {
  std::string start{};
  std::vector<RecordedCell> cells{};
};
inline Description describe(Of<RecordedSession>) {
  return fields("session", "One run.", field("start", &RecordedSession::start, "ISO 8601, UTC."),
                field("cells", &RecordedSession::cells, "Its rows."));
}
struct RecordedNoise {
  std::string name{}, kind{}, machine{}, commit{}, command{};
  bool flags = false;
  std::vector<RecordedSession> sessions{};
};
inline Description describe(Of<RecordedNoise>) {
  return fields("recording", "Sessions of one build on one machine.",
                field("name", &RecordedNoise::name, "Its name."),
                field("kind", &RecordedNoise::kind, "quiet, tails, ..."),
                field("machine", &RecordedNoise::machine, "In words."),
                field("commit", &RecordedNoise::commit, "Of the program."),
                field("command", &RecordedNoise::command, "That recorded it."),
                field("flags", &RecordedNoise::flags, "Whether flags were recorded."),
                field("sessions", &RecordedNoise::sessions, "In the order of time."));
}
struct RecordedFile {
  std::vector<RecordedNoise> recordings{};
};
inline Description describe(Of<RecordedFile>) {
  return fields("noise", "Recorded times.",
                field("recordings", &RecordedFile::recordings, "Each of one kind."));
}

Fork fork_of(RecordedFork recorded) {
  Fork fork;
  fork.round = recorded.round;
  fork.seed = static_cast<std::uint64_t>(recorded.round) + 1;
  fork.status = Status::ok;
  fork.flags = std::move(recorded.flags);
  fork.placement = recorded.placement;
  std::int64_t now = 0;
  for (const std::int64_t length : recorded.blocks) {
    fork.blocks.push_back({.steps = 1, .begin_ns = now, .end_ns = now + length});
    now += length;
  }
  return fork;
}

CellReport cell_of(RecordedCell recorded) {
  CellReport cell;
  cell.axes = std::move(recorded.axes);
  cell.id = cell_id(cell.axes);
  cell.status = Status::ok;
  for (RecordedFork& fork : recorded.forks) cell.forks.push_back(fork_of(std::move(fork)));
  return cell;
}

std::vector<int> rounds_of(const CellReport& cell) {
  std::vector<int> rounds;
  for (const Fork& fork : cell.forks) rounds.push_back(fork.round);
  return rounds;
}

std::vector<std::string> ids_of(const Session& session) {
  std::vector<std::string> ids;
  for (const CellReport& cell : session.cells) ids.push_back(cell.id);
  return ids;
}

void require_whole(const Recording& recording, const std::string& file) {
  const auto refuse = [&](const char* why) {
    throw JsonError(fmt::format("{}: {}: {}", file, recording.name, why));
  };
  if (recording.sessions.empty()) refuse("it has no session");
  const auto ids = ids_of(recording.sessions.front());
  if (ids.empty()) refuse("it has no cell");
  if (std::set<std::string>(ids.begin(), ids.end()).size() != ids.size()) refuse("a cell is there twice");
  for (const Session& session : recording.sessions) {
    if (ids_of(session) != ids) refuse("its sessions have other cells");
    for (const CellReport& cell : session.cells) {
      const auto rounds = rounds_of(cell);
      if (rounds.empty() || rounds != rounds_of(session.cells.front())) refuse("a cell lacks a round");
      if (std::adjacent_find(rounds.begin(), rounds.end(), std::greater_equal<>()) != rounds.end())
        refuse("its rounds are not in order");
    }
  }
}

double log_time(const Fork& fork) { return std::log(fork_time(fork).value().step_seconds); }

double spread_of(const CellReport& cell) {
  double sum = 0, squares = 0;
  for (const Fork& fork : cell.forks) sum += log_time(fork);
  const auto n = static_cast<double>(cell.forks.size());
  for (const Fork& fork : cell.forks) squares += std::pow(log_time(fork) - sum / n, 2);
  return std::sqrt(squares / (n - 1));
}

}  // namespace

int Recording::rounds() const {
  int sum = 0;
  for (const Session& session : sessions) sum += static_cast<int>(session.cells.front().forks.size());
  return sum;
}

std::vector<double> Recording::spreads() const {
  std::vector<double> found;
  for (std::size_t cell = 0; cell < cells(); ++cell) {
    std::vector<double> of_sessions;
    for (const Session& session : sessions) of_sessions.push_back(spread_of(session.cells[cell]));
    found.push_back(median(of_sessions));
  }
  return found;
}

std::vector<Recording> read_noise(const std::filesystem::path& file) {
  std::vector<Recording> all;
  for (RecordedNoise& recorded : decoded<RecordedFile>(read_strict_json(file), file.string()).recordings) {
    Recording& recording = all.emplace_back();
    recording.name = std::move(recorded.name);
    recording.kind = std::move(recorded.kind);
    recording.flags = recorded.flags;
    for (RecordedSession& session : recorded.sessions) {
      Session& made = recording.sessions.emplace_back();
      for (RecordedCell& cell : session.cells) made.cells.push_back(cell_of(std::move(cell)));
    }
    require_whole(recording, file.string());
  }
  return all;
}

}  // namespace assay::simulation
