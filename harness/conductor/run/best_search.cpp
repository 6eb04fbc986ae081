#include "harness/conductor/run/best_search.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "harness/core/io/philox.hpp"
#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

constexpr int final_rounds = 6, spare_trials = 2;
constexpr int rounds_to_leave = 2;  // the first ones
constexpr double hopeless_ratio = 1.5;
constexpr double all_pairs_confidence = 0.98;

// Logarithms of the step time by round, of the forks that others did not disturb.
using LogTimes = std::map<RoundKey, double>;

LogTimes log_times(const CellReport& row) {
  LogTimes times;
  for (const Fork& fork : row.forks) {
    const auto time = fork.status == Status::ok && !is_disturbed(fork) ? fork_time(fork) : std::nullopt;
    if (time && time->step_seconds > 0) times[round_of(fork)] = std::log(time->step_seconds);
  }
  return times;
}

std::vector<double> shared_differences(const LogTimes& a, const LogTimes& b) {
  std::vector<double> differences;
  for (const auto& [round, time] : a)
    if (const auto other = b.find(round); other != b.end()) differences.push_back(time - other->second);
  return differences;
}

struct Timed {
  LogTimes times;
  std::optional<double> step;  // trial_step()
};

// A robust estimate of log(a / b).
std::optional<double> log_ratio(const Timed& a, const Timed& b) {
  const std::vector<double> differences = shared_differences(a.times, b.times);
  constexpr std::size_t enough =
      6;  // of three values, the median of Walsh averages does not resist one outlier
  if (differences.size() >= enough) return paired_shift(differences, 0.5).estimate;
  if (!differences.empty()) return median(differences);
  return a.step && b.step ? std::optional(std::log(*a.step / *b.step)) : std::nullopt;
}

int last_round(const CellReport& row) {
  int last = -1;
  for (const Fork& fork : row.forks) last = std::max(last, fork.round);
  return last;
}

// The mean logarithm of its ratios to the others.
double score_of(std::size_t candidate, const std::vector<std::size_t>& others,
                const std::map<std::size_t, Timed>& timed) {
  std::vector<double> ratios;
  for (const std::size_t other : others) {
    if (other == candidate) continue;
    if (const auto ratio = log_ratio(timed.at(candidate), timed.at(other))) ratios.push_back(*ratio);
  }
  return ratios.empty() ? 0 : mean(ratios);
}

// In a part of the search, undisturbed forks of a candidate.
int good_forks(const CellReport& row, int from_round) {
  const LogTimes times = log_times(row);
  return static_cast<int>(
      std::ranges::count_if(times, [&](const auto& one) { return one.first.round >= from_round; }));
}

// In each of the first rounds, it took 1.5 times as long as the fastest. A search is one session.
bool is_hopeless(const LogTimes& own, const std::map<std::size_t, LogTimes>& all) {
  for (RoundKey round; round.round < rounds_to_leave; ++round.round) {
    const auto time = own.find(round);
    if (time == own.end()) return false;
    double fastest = time->second;
    for (const auto& [other, times] : all)
      if (const auto found = times.find(round); found != times.end())
        fastest = std::min(fastest, found->second);
    if (time->second - fastest < std::log(hopeless_ratio)) return false;
  }
  return true;
}

}  // namespace

bool is_searched(const Axis& axis) { return axis.name() == "mode" || axis.name() == "layout"; }

std::string work_id(const Axes& axes) { return cell_id_without(axes, is_searched); }

std::vector<std::vector<std::size_t>> candidates_of(const std::vector<Cell>& cells) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::vector<std::size_t>> works;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].candidate) continue;
    const auto [work, is_new] = numbers.try_emplace(work_id(cells[i].axes), works.size());
    if (is_new) works.emplace_back();
    works[work->second].push_back(i);
  }
  return works;
}

std::optional<double> trial_step(const CellReport& row) {
  std::vector<double> quiet, any;
  for (const Fork& fork : row.forks) {
    const auto time = fork.status == Status::ok ? fork_time(fork) : std::nullopt;
    if (!time) continue;
    any.push_back(time->step_seconds);
    if (!is_disturbed(fork)) quiet.push_back(time->step_seconds);
  }
  if (any.empty()) return std::nullopt;
  return median(quiet.empty() ? any : quiet);
}

bool is_eligible(const CellReport& row) {
  const bool failed =
      row.status == Status::wrong_result ||
      std::ranges::any_of(row.forks, [](const Fork& fork) { return fork.status != Status::ok; });
  return !failed && trial_step(row);
}

std::vector<std::size_t> in_order(std::vector<std::size_t> candidates, const Report& report) {
  std::map<std::size_t, std::pair<int, double>> keys;  // the negative of the last round, and the score
  std::map<std::size_t, Timed> eligible;
  for (const std::size_t i : candidates)
    if (const CellReport& row = report.cells[i]; is_eligible(row))
      eligible[i] = {log_times(row), trial_step(row)};
  for (const auto& [i, own] : eligible) {
    const int round = last_round(report.cells[i]);
    std::vector<std::size_t> rivals;  // that remained as long
    for (const auto& [other, timed] : eligible)
      if (last_round(report.cells[other]) == round) rivals.push_back(other);
    keys[i] = {-round, score_of(i, rivals, eligible)};
  }
  const std::pair<int, double> last{1, 0};
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
    return (keys.contains(a) ? keys[a] : last) < (keys.contains(b) ? keys[b] : last);
  });
  return candidates;
}

BestSearch::BestSearch(const std::vector<Cell>& cells, const RunSettings& settings) : settings_(settings) {
  for (const std::vector<std::size_t>& candidates : candidates_of(cells)) {
    Work work{.candidates = candidates};
    for (const std::size_t i : candidates)
      if (cells[i].runnable()) work.active.push_back(i);
    works_.push_back(std::move(work));
  }
}

bool BestSearch::is_finalist(std::size_t cell) const {
  return std::ranges::any_of(works_, [&](const Work& work) {
    return work.is_final && std::ranges::find(work.active, cell) != work.active.end();
  });
}

bool BestSearch::needs_round(const Work& work, const Report& report) const {
  const int wanted = work.is_final ? final_rounds : first_rounds(settings_);
  const int made = work.begun - work.part_begin;
  if (made < wanted) return true;
  if (settings_.quick || made >= wanted + spare_trials) return false;
  return std::ranges::any_of(
      work.active, [&](std::size_t i) { return good_forks(report.cells[i], work.part_begin) < wanted; });
}

// Keeps the two fastest; also replaces one of them that has failed.
void BestSearch::halve(Work& work, const Report& report) const {
  constexpr std::size_t finalists = 2;
  const bool from_all = work.is_final || work.active.empty();
  std::vector<std::size_t> order = in_order(from_all ? work.candidates : work.active, report);
  std::erase_if(order, [&](std::size_t i) { return !is_eligible(report.cells[i]); });
  if (order.size() > finalists) order.resize(finalists);
  work.active = std::move(order);
  work.is_final = true;
  work.part_begin = work.begun;
  work.is_over = work.active.size() < finalists || settings_.quick;
}

// Drops who failed or is hopeless, and begins the next part if this one is complete.
void BestSearch::advance(Work& work, const Report& report) const {
  const auto failed =
      std::erase_if(work.active, [&](std::size_t i) { return !is_eligible(report.cells[i]); });
  if (work.begun == rounds_to_leave) {
    std::map<std::size_t, LogTimes> all;
    for (const std::size_t i : work.active) all[i] = log_times(report.cells[i]);
    std::erase_if(work.active, [&](std::size_t i) { return is_hopeless(all.at(i), all); });
  }
  if (work.is_final) {
    if (failed > 0) halve(work, report);
    work.is_over = work.is_over || !needs_round(work, report);
  } else if (work.active.size() < 2 || !needs_round(work, report)) {
    halve(work, report);
  }
}

std::vector<PlannedFork> BestSearch::next(const Report& report) {
  std::vector<PlannedFork> forks;
  for (std::size_t number = 0; number < works_.size(); ++number) {
    Work& work = works_[number];
    if (work.begun > 0 && !work.is_over) advance(work, report);
    if (work.is_over || work.active.empty()) continue;
    std::vector<std::size_t> order = work.active;
    Philox(settings_.seed, fmt::format("best/{}/{}", number, work.begun)).shuffle(std::span(order));
    for (const std::size_t i : order) forks.push_back({i, work.begun});
    ++work.begun;
  }
  return forks;
}

namespace {

// The scatter of a fork about the sum of its candidate's and its round's effect.
struct Scatter {
  double variance = 0;
  int degrees = 0;  // below 1: it is not known
};

Scatter scatter_of(const std::vector<LogTimes>& all) {
  constexpr int sweeps = 100;  // of an alternating fit, which is exact at once if no fork is missing
  std::map<RoundKey, double> round_effects;
  std::vector<double> effects(all.size(), 0);
  int forks = 0, candidates = 0;
  for (const LogTimes& times : all) {
    forks += static_cast<int>(times.size());
    candidates += times.empty() ? 0 : 1;
    for (const auto& [round, time] : times) round_effects[round] = 0;
  }
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].empty()) continue;
      std::vector<double> rest;
      for (const auto& [round, time] : all[i]) rest.push_back(time - round_effects[round]);
      effects[i] = mean(rest);
    }
    for (auto& [round, effect] : round_effects) {
      std::vector<double> rest;
      for (std::size_t i = 0; i < all.size(); ++i)
        if (const auto time = all[i].find(round); time != all[i].end())
          rest.push_back(time->second - effects[i]);
      effect = mean(rest);
    }
  }
  double squares = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const auto& [round, time] : all[i]) squares += std::pow(time - effects[i] - round_effects[round], 2);
  const int degrees = forks - candidates - static_cast<int>(round_effects.size()) + 1;
  return {degrees > 0 ? squares / degrees : 0, degrees};
}

// The variance of a fork, from the differences of a pair.
double variance_of_pair(std::span<const double> differences) {
  if (differences.size() < 2) return 0;
  return squares_about_mean(differences) / static_cast<double>(differences.size() - 1) / 2;
}

}  // namespace

std::vector<std::optional<TrialRatio>> ratios_to_first(const std::vector<std::size_t>& candidates,
                                                       const Report& report) {
  std::vector<LogTimes> all;
  for (const std::size_t i : candidates) {
    const CellReport& row = report.cells[i];
    all.push_back(is_eligible(row) ? log_times(row) : LogTimes());
  }
  const Scatter scatter = scatter_of(all);
  const auto timed = std::ranges::count_if(all, [](const LogTimes& times) { return !times.empty(); });
  const double pairs = std::max(1.0, static_cast<double>(timed * (timed - 1)) / 2);
  std::vector<std::optional<TrialRatio>> ratios;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto own = trial_step(report.cells[candidates[i]]), first = trial_step(report.cells[candidates[0]]);
    if (!own || !first || !is_eligible(report.cells[candidates[i]])) {
      ratios.emplace_back();
      continue;
    }
    TrialRatio ratio{.value = *own / *first};
    const std::vector<double> differences = shared_differences(all[i], all[0]);
    if (i > 0 && !differences.empty()) {
      const double middle = mean(differences);
      ratio.rounds = static_cast<int>(differences.size());
      ratio.value = std::exp(middle);
      if (scatter.degrees > 0) {
        const double variance = std::max(scatter.variance, variance_of_pair(differences));
        const double half = student_t_quantile(1 - (1 - all_pairs_confidence) / 2 / pairs, scatter.degrees) *
                            std::sqrt(2 * variance / ratio.rounds);
        ratio.lower = std::exp(middle - half);
        ratio.upper = std::exp(middle + half);
      }
    }
    ratios.push_back(ratio);
  }
  return ratios;
}

}  // namespace assay
