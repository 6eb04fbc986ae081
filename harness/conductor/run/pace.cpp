#include "harness/conductor/run/pace.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "harness/conductor/process/steady_time.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/report/analysis.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

double seconds_between(Pace::Clock::time_point begin, Pace::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// The rounds of one group.
struct Seen {
  std::map<RoundKey, int> rounds{};  // with the number of forks that count
  std::set<std::string> cells{};
  std::vector<double> others{};  // shares of the processors, in disturbed forks

  // Those in which two cells or more can be compared.
  int undisturbed() const {
    return static_cast<int>(std::ranges::count_if(rounds, [](const auto& one) { return one.second > 1; }));
  }
  int disturbed() const { return static_cast<int>(rounds.size()) - undisturbed(); }
};

std::map<std::string, Seen> seen_by_group(const Report& report) {
  std::map<std::string, Seen> groups;
  for (const CellReport& cell : report.cells)
    for (const Fork& fork : cell.forks) {
      if (fork.status != Status::ok) continue;
      Seen& seen = groups[group_title(cell.axes)];
      seen.cells.insert(cell.id);
      seen.rounds[round_of(fork)] += counts(fork) ? 1 : 0;
      if (is_disturbed(fork) && fork.disturbance) seen.others.push_back(fork.disturbance->others_share());
    }
  return groups;
}

}  // namespace

double Pace::left(Clock::time_point now) const { return max_seconds_ - seconds_between(begin_, now); }

std::optional<Pace::Clock::time_point> Pace::end() const {
  if (max_seconds_ <= 0) return std::nullopt;
  return begin_ + duration_of(max_seconds_);
}

bool Pace::can_begin(std::span<const PlannedFork> forks, Clock::time_point now) const {
  if (max_seconds_ <= 0) return true;
  double known = 0, needed = 0;
  for (const auto& [cell, seconds] : seconds_) known += seconds;
  const double mean = seconds_.empty() ? 0 : known / static_cast<double>(seconds_.size());
  for (const PlannedFork& fork : forks) {
    const auto found = seconds_.find(fork.cell);
    needed += found == seconds_.end() ? mean : found->second;
  }
  return left(now) > 0 && needed <= left(now);
}

std::optional<double> Pace::fair_share(std::size_t forks_left, Clock::time_point now) const {
  if (max_seconds_ <= 0) return std::nullopt;
  return std::max(0.0, left(now)) / static_cast<double>(std::max<std::size_t>(1, forks_left));
}

double Pace::part_over(Clock::time_point now, int done, int planned) const {
  const double part = max_seconds_ > 0 ? seconds_between(begin_, now) / max_seconds_
                                       : static_cast<double>(done) / std::max(1, planned);
  return std::clamp(part, 0.0, 1.0);
}

double seconds_of_next(const Fork& last, double seconds, bool processes_stay) {
  if (!processes_stay || !last.spent || last.status != Status::ok) return seconds;
  return std::max(0.0, seconds - last.spent->start - last.spent->compile);
}

std::string too_busy(const Report& report, int wanted, double part_over) {
  constexpr double min_part = 1.0 / 3;
  if (part_over < min_part) return "";
  for (const auto& [title, seen] : seen_by_group(report)) {
    const int undisturbed = seen.undisturbed();
    const bool mostly = 2 * seen.disturbed() > static_cast<int>(seen.rounds.size());
    if (seen.cells.size() < 2 || !mostly || undisturbed / part_over >= wanted) continue;
    const std::string others = seen.others.empty() ? ""
                                                   : fmt::format(", which took {:.0f} % of the processors",
                                                                 100 * median(seen.others));
    return fmt::format(
        "{}: the machine is too busy for a ranking: {} of {} rounds were disturbed by other processes{}; the run goes on, "
        "and ends with a provisional order if this does not change",
        title, seen.disturbed(), seen.rounds.size(), others);
  }
  return "";
}

std::string learnt(const Report& report, std::size_t cell) {
  constexpr std::size_t max_named = 6;
  std::vector<const CellReport*> group;
  for (const CellReport& other : report.cells)
    if (group_title(other.axes) == group_title(report.cells[cell].axes)) group.push_back(&other);
  const std::optional<Provisional> order = order_by_all_rounds(group);
  if (!order) return "";
  const std::vector<ProvisionalRow>& rows = order->rows;
  std::string text;
  for (std::size_t i = 0; i < std::min(max_named, rows.size()); ++i)
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", short_name(*group[rows[i].cell]),
                        i == 0 ? "" : fmt::format(" {:.2f}x", rows[i].to_first.value));
  return order->threads ? fmt::format("{} (threads: {})", text, *order->threads) : text;
}

}  // namespace assay
