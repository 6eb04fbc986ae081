#include "harness/conductor/compare/ab.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/compare/cell_decision.hpp"
#include "harness/conductor/compare/looks.hpp"
#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/run/cell_report.hpp"
#include "harness/conductor/run/measurement.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/metrics.hpp"

namespace assay {

std::string too_little_time(int first_look, double round_seconds, double max_seconds) {
  const double needed = first_look * round_seconds;
  if (needed <= max_seconds) return "";
  return fmt::format(
      "warning: --max-time allows no look, so nothing will be decided: the first look is after {} rounds, "
      "in about {}, and the time ends after {}; increase --max-time",
      first_look, duration_text(needed), duration_text(max_seconds));
}

namespace {

using Clock = std::chrono::steady_clock;

struct Contest {
  CellPair pair;
  std::string metric;
  std::vector<double> a, b;  // values of the rounds that both sides finished
  Looks looks;
  bool over = false;  // decided, or a side failed
};

// "torch: version 2.8.0 in a, 2.9.0 in b" for each backend on both sides whose versions differ, or with `equal_too`.
std::vector<std::string> version_notes(const std::vector<Contest>& contests, const AbOutcome& outcome,
                                       bool equal_too) {
  std::map<std::string, std::array<std::set<std::string>, 2>> versions;
  for (const Contest& one : contests) {
    const CellReport &a = outcome.a.cells[one.pair.a], &b = outcome.b.cells[one.pair.b];
    if (a.axes.backend != b.axes.backend) continue;
    auto& found = versions[a.axes.backend];
    if (!a.backend_version.empty()) found[0].insert(a.backend_version);
    if (!b.backend_version.empty()) found[1].insert(b.backend_version);
  }
  std::vector<std::string> notes;
  for (const auto& [backend, sides] : versions) {
    const std::string a = fmt::format("{}", fmt::join(sides[0], " and ")),
                      b = fmt::format("{}", fmt::join(sides[1], " and "));
    if (a.empty() || b.empty()) continue;
    if (a != b)
      notes.push_back(fmt::format("{}: version {} in a, {} in b", backend, a, b));
    else if (equal_too)
      notes.push_back(fmt::format("{}: version {} on both sides", backend, a));
  }
  return notes;
}

class AbRun {
 public:
  AbRun(const AbArm& a, const AbArm& b, const std::set<std::string>& free, const AbSettings& settings,
        Progress& progress)
      : settings_(settings),
        progress_(progress),
        names_interpreters_(free.contains("interpreter")),
        a_(a.request, a.cells, a.registries, progress, interrupts_),
        b_(b.request, b.cells, b.registries, progress, interrupts_) {
    const auto pairs = pair_cells(a_.cells(), b_.cells(), free);
    plan_ = plan_looks(settings.confidence, static_cast<int>(pairs.size()), settings.looks, settings.rounds);
    for (const CellPair& pair : pairs)
      contests_.push_back({pair, {}, {}, {}, Looks(plan_, decision_settings())});
    for (Measurement* side : {&a_, &b_}) side->plan(plan_.rounds.back() * 2);
  }

  AbOutcome run(const std::function<MachineRecord()>& machine) {
    a_.prepare();
    b_.prepare();
    check();
    announce();
    while (!stopped() && !out_of_time_ && active() > 0) round();
    progress_.clear();
    return finish(machine);
  }

 private:
  bool stopped() const { return interrupts_.signal() != 0; }
  std::ptrdiff_t active() const {
    return std::count_if(contests_.begin(), contests_.end(), [](const Contest& one) { return !one.over; });
  }
  DecisionSettings decision_settings() const {
    DecisionSettings settings;
    settings.threshold = settings_.threshold;
    settings.confidence = plan_.confidence;
    return settings;
  }
  const CellReport& row_a(const Contest& one) const { return a_.report().cells[one.pair.a]; }
  const CellReport& row_b(const Contest& one) const { return b_.report().cells[one.pair.b]; }

  void check() {
    for (Contest& one : contests_) {
      if (stopped()) return;
      a_.check(one.pair.a);
      b_.check(one.pair.b);
      one.metric = settings_.metric.empty() ? main_metric(row_a(one).axes) : settings_.metric;
      DecisionSettings settings = decision_settings();
      settings.higher_is_better = higher_is_better(one.metric);
      one.looks = Looks(plan_, settings);
      one.over = !measurable(one, 0);
    }
  }

  void announce() {
    progress_.plan(static_cast<int>(2 * active()) * plan_.rounds.front());
    progress_.note(fmt::format("{} of cells; looks after {} rounds, each interval at {:.5g} %",
                               plural(contests_.size(), "pair"), fmt::join(plan_.rounds, ", "),
                               100 * plan_.confidence));
  }

  // Warns after the first round if --max-time will end before the first look.
  void warn_if_too_little_time() {
    const std::string doubt = too_little_time(plan_.rounds.front(), round_seconds_, settings_.max_seconds);
    if (!doubt.empty()) progress_.note(doubt);
  }

  // Shuffles the pairs, and the two sides in each pair, so that drift affects both sides equally.
  void round() {
    if (seconds_since(begin_) + round_seconds_ > settings_.max_seconds) {
      out_of_time_ = true;
      return;
    }
    const Clock::time_point begin = Clock::now();
    std::vector<Contest*> order;
    for (Contest& one : contests_)
      if (!one.over) order.push_back(&one);
    Philox lot(a_.settings().seed, fmt::format("ab/{}", rounds_));
    lot.shuffle(std::span(order));
    for (Contest* one : order) {
      if (stopped()) return;
      measure(*one, lot.below(2) == 0);
    }
    round_seconds_ = seconds_since(begin);
    if (++rounds_ == 1) warn_if_too_little_time();
    plan_progress();
  }

  void plan_progress() {
    int due = 0;
    for (const Contest& one : contests_)
      if (!one.over) due += 2 * one.looks.rounds_to_next_look();
    progress_.plan(done_ + due);
  }

  void measure(Contest& one, bool a_first) {
    if (a_first) a_.time({one.pair.a, rounds_});
    b_.time({one.pair.b, rounds_});
    if (!a_first) a_.time({one.pair.a, rounds_});
    done_ += 2;
    const auto a = value_of(row_a(one), one.metric), b = value_of(row_b(one), one.metric);
    if (a && b) {
      one.a.push_back(*a);
      one.b.push_back(*b);
      one.looks.add(*a, *b);
    }
    // If a metric is missing in one round it will be missing in all of them, so stop.
    one.over = one.looks.decided() || !a || !b || !measurable(one, rounds_ + 1);
  }

  bool measurable(const Contest& one, int round) const {
    return a_.wanted({one.pair.a, round}) && b_.wanted({one.pair.b, round});
  }

  std::optional<double> value_of(const CellReport& row, const std::string& metric) const {
    const auto fork = std::find_if(row.forks.begin(), row.forks.end(),
                                   [&](const Fork& each) { return each.round == rounds_; });
    if (fork == row.forks.end() || fork->status != Status::ok) return std::nullopt;
    return fork_metric(row, *fork, metric);
  }

  CellVerdict by_rounds(const Contest& one) const {
    CellVerdict cell = one.looks.verdict();
    cell.looks = one.looks.taken();
    if (!one.a.empty()) {
      cell.base = median(one.a);
      cell.current = median(one.b);
    } else {
      cell.reason = fmt::format("{} has no value in a fork of both sides", one.metric);
    }
    return cell;
  }

  AbOutcome finish(const std::function<MachineRecord()>& machine) {
    // A cell is complete with the forks that its looks needed.
    a_.plan(1);
    b_.plan(1);
    AbOutcome outcome;
    outcome.a = a_.finish(stopped());
    outcome.b = b_.finish(stopped());
    Comparison& comparison = outcome.comparison;
    comparison.title = "assay ab";
    comparison.threshold = settings_.threshold;
    comparison.confidence = settings_.confidence;
    comparison.cell_confidence = plan_.confidence;
    int accuracies = 0;
    for (const Contest& one : contests_)
      accuracies += accuracies_of(outcome.a.cells[one.pair.a], outcome.b.cells[one.pair.b]);
    for (const Contest& one : contests_) {
      CellReport a = outcome.a.cells[one.pair.a];
      const CellReport& b = outcome.b.cells[one.pair.b];
      // Skipped: the other side failed its equivalence check.
      if (a.status == Status::interrupted && a.forks.empty() && has_failed(b) && !stopped())
        a.status = Status::ok;
      BreakageSettings breakage = settings_.breakage;
      breakage.accuracy_error /= std::max(1, accuracies);
      // Different backends or batches may use different amounts of memory, so do not compare it.
      if (a.id != b.id) breakage.memory_threshold = std::numeric_limits<double>::infinity();
      CellVerdict cell = decide_pair(a, b, one.metric, breakage, [&] { return by_rounds(one); });
      cell.id = one.pair.id;
      comparison.compared += !one.a.empty() && a.status == Status::ok && b.status == Status::ok;
      comparison.cells.push_back(std::move(cell));
    }
    sort_by_attention(comparison.cells);
    comparison.environment = machine_differences(outcome.a.environment, machine());
    // Both sides of a round have the same speed of the machine.
    std::erase_if(comparison.environment, [](const auto& difference) {
      return !difference.hard || difference.kind == DifferenceKind::speed;
    });
    outcome.rounds = rounds_;
    outcome.seconds = seconds_since(begin_);
    outcome.out_of_time = out_of_time_;
    outcome.signal = interrupts_.signal();
    comparison.notes = version_notes(contests_, outcome, names_interpreters_);
    comparison.notes.push_back(fmt::format("{} in {}{}; the interval of each look is exact at {:.5g} %",
                                           plural(outcome.rounds, "round"), duration_text(outcome.seconds),
                                           out_of_time_ ? " (the limit of --max-time)" : "",
                                           100 * plan_.confidence));
    return outcome;
  }

  const AbSettings& settings_;
  Progress& progress_;
  Clock::time_point begin_ = Clock::now();
  Interrupts interrupts_;
  bool names_interpreters_;
  Measurement a_, b_;
  LookPlan plan_;
  std::vector<Contest> contests_;
  int rounds_ = 0, done_ = 0;
  double round_seconds_ = 0;
  bool out_of_time_ = false;
};

}  // namespace

AbOutcome run_ab(const AbArm& a, const AbArm& b, const std::set<std::string>& free,
                 const AbSettings& settings, const std::function<MachineRecord()>& machine,
                 Progress& progress) {
  return AbRun(a, b, free, settings, progress).run(machine);
}

}  // namespace assay
