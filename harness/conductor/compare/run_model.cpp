#include "harness/conductor/compare/run_model.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "harness/core/statistics.hpp"

namespace assay {
namespace {

// The variance of the median of Walsh averages of n normal values is this much of that of one value, times 1 / n.
constexpr double of_location = std::numbers::pi / 3;
// The same of a median.
constexpr double of_median = std::numbers::pi / 2;

double location(const RunValues& run) { return paired_shift(run, 0.5).estimate; }

double t_quantile(double p, double degrees) {
  return student_t_quantile(p, std::max(1, static_cast<int>(degrees)));
}

// Degrees of freedom of a sum of independent estimates of variances.
struct Sum {
  double variance = 0, weight = 0;  // the sum of variance^2 / degrees
  void add(double part, double degrees) {
    variance += part;
    weight += part * part / degrees;
  }
  double degrees() const { return weight > 0 ? variance * variance / weight : 1e6; }
};

// The forks of a cell within its runs.
struct Within {
  double squares = 0, degrees = 0;
  void add(const RunValues& run) {
    if (run.empty()) return;
    squares += squares_about_mean(run);
    degrees += static_cast<double>(run.size()) - 1;
  }
  double variance() const { return degrees > 0 ? squares / degrees : 0; }
};

// The locations of a cell's runs, and the part of their variance that forks explain.
struct Located {
  std::vector<std::vector<std::optional<double>>> sessions;
  double of_forks = 0;

  std::vector<std::vector<double>> known() const {
    std::vector<std::vector<double>> found;
    for (const auto& session : sessions) {
      std::vector<double> runs;
      for (const auto& run : session)
        if (run) runs.push_back(*run);
      if (!runs.empty()) found.push_back(std::move(runs));
    }
    return found;
  }
};

Located located(const CellSessions& cell, double variance_of_forks) {
  Located found;
  double inverse = 0, runs = 0;
  for (const auto& session : cell.sessions) {
    auto& places = found.sessions.emplace_back();
    for (const RunValues& run : session) {
      places.push_back(run.empty() ? std::nullopt : std::optional(location(run)));
      if (run.empty()) continue;
      inverse += 1 / static_cast<double>(run.size());
      runs += 1;
    }
  }
  found.of_forks = runs > 0 ? of_location * variance_of_forks * inverse / runs : 0;
  return found;
}

// The variance between any two runs, including that of their forks.
struct Between {
  double variance = 0, degrees = 0;
};

// One session: that of its runs. Several: that of runs plus that of sessions, because two runs that are compared are of two
// sessions; the mean of each run has equal weight in its session, and so has the mean of each session.
Between between(const std::vector<std::vector<double>>& sessions) {
  std::vector<double> means;
  double runs = 0, squares = 0, inverse_runs = 0;
  for (const auto& session : sessions) {
    means.push_back(mean(session));
    squares += squares_about_mean(session);
    runs += static_cast<double>(session.size());
    inverse_runs += 1 / static_cast<double>(session.size());
  }
  const auto count = static_cast<double>(sessions.size());
  if (runs < 2) return {};
  if (sessions.size() == 1) return {squares / (runs - 1), runs - 1};
  Sum sum;
  sum.add(squares_about_mean(means) / (count - 1), count - 1);
  // The part of the variance of runs that is not in the variance of session means.
  if (runs > count) sum.add((1 - inverse_runs / count) * squares / (runs - count), runs - count);
  return {sum.variance, sum.weight > 0 ? sum.degrees() : runs - 1};
}

// Subtracts from each run what it has in common over the cells. Returns the shift of each run.
std::vector<double> centre(std::vector<Located>& cells) {
  std::vector<double> shifts;
  std::vector<double> means;
  for (const Located& cell : cells) {
    std::vector<double> all;
    for (const auto& session : cell.known()) all.insert(all.end(), session.begin(), session.end());
    means.push_back(all.empty() ? 0 : mean(all));
  }
  for (std::size_t s = 0; s < cells.front().sessions.size(); ++s)
    for (std::size_t r = 0; r < cells.front().sessions[s].size(); ++r) {
      std::vector<double> off;
      for (std::size_t c = 0; c < cells.size(); ++c)
        if (const auto& place = cells[c].sessions[s][r]) off.push_back(*place - means[c]);
      shifts.push_back(off.empty() ? 0 : median(off));
      for (Located& cell : cells)
        if (auto& place = cell.sessions[s][r]) *place -= shifts.back();
    }
  return shifts;
}

// How far a cell's variance may be above the median of all cells by chance: the ratio of the quantiles 0.9999 and 0.5 of
// chi-squared (Wilson & Hilferty 1931).
double chance_of_variance(double degrees) {
  const double a = 2 / (9 * degrees);
  return std::pow((1 - a + normal_quantile(0.9999) * std::sqrt(a)) / (1 - a), 3);
}

// The variance between runs, pooled over cells and histories.
class Pool {
 public:
  Pool(bool centred, const ModelSettings& settings) : centred_(centred), settings_(settings) {}

  // Returns the locations without the common shifts, and notes the cells whose runs are uneven.
  std::vector<Located> add(const History& history, const std::vector<double>& variances_of_forks,
                           std::vector<bool>* uneven = nullptr) {
    std::vector<Located> cells;
    for (std::size_t c = 0; c < history.size(); ++c)
      cells.push_back(located(history[c], variances_of_forks[c]));
    const bool many = cells.size() >= cells_for_a_shift;
    const bool centred = centred_ && many && is_aligned(cells);
    if (centred) shifts_ = centre(cells);
    const double assumed = settings_.prior_deviation * settings_.prior_deviation;
    std::vector<Between>& found = between_;
    found.clear();
    std::vector<double> relative;  // to what is assumed
    for (const Located& cell : cells) {
      found.push_back(between(cell.known()));
      if (found.back().degrees > 0) relative.push_back(found.back().variance / (assumed + cell.of_forks));
    }
    if (relative.empty()) return cells;
    const auto count = static_cast<double>(relative.size());
    // The median of few cells is itself uncertain, and forks alone explain some variance.
    const double middle = median(relative) * (1 + 2 / count);
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (found[c].degrees <= 0) continue;
      const double scale = assumed + cells[c].of_forks;
      const double limit = std::max(middle * scale, cells[c].of_forks) * chance_of_variance(found[c].degrees);
      const bool beyond = many && found[c].variance > limit;
      if (uneven) (*uneven)[c] = beyond;
      const double variance = beyond ? limit : found[c].variance;
      // A cell whose forks scatter widely says little about its runs. Cells that share the shift of a run are one sample
      // of it; centred, they are independent but for their median.
      const double degrees =
          found[c].degrees * std::pow(assumed / scale, 2) * (centred ? (count - 1) / count : 1 / count);
      degrees_ += degrees;
      total_ += degrees * variance;
      excess_ += degrees * (variance - cells[c].of_forks);
    }
    return cells;
  }

  // With the prior, which is not 0.
  void put_into(Spread& spread) const {
    const double prior = settings_.prior_degrees * settings_.prior_deviation * settings_.prior_deviation;
    const double weight = settings_.prior_degrees + degrees_;
    spread.of_runs = (prior + std::max(0.0, excess_)) / weight;
    // The part that forks explain is subtracted, so its error is in the difference, too.
    const double total = degrees_ > 0 ? std::max(total_ / degrees_, spread.of_runs) / spread.of_runs : 1;
    spread.run_degrees = std::max(settings_.prior_degrees,
                                  weight * weight / (settings_.prior_degrees + degrees_ * total * total));
  }

  // Of the history that was added last.
  const std::vector<double>& shifts() const { return shifts_; }
  const std::vector<Between>& between_runs() const { return between_; }

 private:
  static bool is_aligned(const std::vector<Located>& cells) {
    return std::ranges::all_of(cells, [&](const Located& cell) {
      return std::ranges::equal(cell.sessions, cells.front().sessions,
                                [](const auto& a, const auto& b) { return a.size() == b.size(); });
    });
  }

  bool centred_;
  const ModelSettings& settings_;
  double total_ = 0, excess_ = 0, degrees_ = 0;  // the sums are of variances, times their degrees
  std::vector<double> shifts_;
  std::vector<Between> between_;
};

// Moderated variances (as Smyth 2004): an estimate with d degrees of freedom has a squared coefficient of variation of 2 / d.
// So if the variances of the cells differ by more than chance explains, by a squared coefficient of 2 / d, the pooled one
// weighs as much as d degrees of a cell's own. Chance adds about 1 / sqrt(cells) to the coefficient.
class OwnVariances {
 public:
  OwnVariances(const Spread& pooled, const std::vector<Between>& cells, const std::vector<Located>& places)
      : pooled_(pooled) {
    double sum = 0, squares = 0, by_chance = 0, count = 0;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      ratios_.push_back(cells[c].variance / (pooled.of_runs + places[c].of_forks));
      of_forks_.push_back(places[c].of_forks);
      degrees_.push_back(cells[c].degrees);
      if (cells[c].degrees <= 0) continue;
      sum += ratios_.back();
      squares += std::pow(ratios_.back(), 2);
      by_chance += 1 + 2 / cells[c].degrees;
      count += 1;
    }
    if (count < static_cast<double>(cells_for_a_shift) || sum <= 0) return;
    const double excess = squares * count * count / (sum * sum * by_chance) - 1 - 1 / std::sqrt(count);
    if (excess > 0) weight_ = 2 / excess;
  }

  // The spread of a cell, of its runs: at least the pooled one.
  Spread of(std::size_t cell) const {
    Spread spread = pooled_;
    if (!weight_ || degrees_[cell] <= 0) return spread;
    const double degrees = *weight_ + degrees_[cell];
    const double factor = std::max(1.0, (*weight_ + degrees_[cell] * ratios_[cell]) / degrees);
    spread.of_runs = factor * (pooled_.of_runs + of_forks_[cell]) - of_forks_[cell];
    spread.run_degrees = std::min(pooled_.run_degrees, degrees);
    return spread;
  }

 private:
  Spread pooled_;
  std::vector<double> ratios_, of_forks_, degrees_;
  std::optional<double> weight_;
};

CellSessions sessions_of(const ModelCell& cell) {
  CellSessions found;
  for (const RunValues& run : cell.base) found.sessions.push_back({run});
  return found;
}

// The variance of the difference between the new run and the mean of the baselines.
Sum variance_of(const Spread& spread, double runs_share, double forks_share) {
  Sum sum;
  sum.add(spread.of_runs * runs_share, spread.run_degrees);
  sum.add(of_location * spread.of_forks * forks_share, spread.fork_degrees);
  return sum;
}

double quantile_of(const Sum& sum, double confidence) {
  return t_quantile(0.5 + 0.5 * confidence, sum.degrees());
}

// `floor`: a smaller estimate is not found.
double detectable_by(const Sum& sum, double floor, double confidence) {
  const double error = std::sqrt(sum.variance);
  return std::max(floor, quantile_of(sum, confidence) * error) +
         t_quantile(detection_power, sum.degrees()) * error;
}

Sum planned(const Spread& spread, int runs, int forks) {
  Spread with = spread;
  with.fork_degrees = static_cast<double>((runs + 1) * (forks - 1));
  return variance_of(with, 1 + 1.0 / runs, (1 + 1.0 / runs) / forks);
}

}  // namespace

double Spread::half_width(int runs, int forks, double confidence) const {
  const Sum sum = planned(*this, runs, forks);
  return quantile_of(sum, confidence) * std::sqrt(sum.variance);
}

double Spread::detectable(int runs, int forks, double threshold, double confidence) const {
  return detectable_by(planned(*this, runs, forks), threshold, confidence);
}

ModelResult decide_runs(const std::vector<ModelCell>& cells, std::span<const History> histories,
                        const ModelSettings& settings) {
  ModelResult result;
  result.cells.resize(cells.size());
  std::vector<std::size_t> compared;  // indices
  History base;
  std::vector<double> variances;
  std::vector<Within> within;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    Within forks;
    for (const RunValues& run : cells[c].base) forks.add(run);
    const bool has_base = std::ranges::any_of(cells[c].base, [](const auto& run) { return !run.empty(); });
    forks.add(cells[c].current);
    if (!has_base || cells[c].current.empty() || forks.degrees < 1) continue;
    compared.push_back(c);
    base.push_back(sessions_of(cells[c]));
    variances.push_back(forks.variance());
    within.push_back(forks);
  }
  result.confidence =
      1 - (1 - settings.confidence) / static_cast<double>(std::max<std::size_t>(1, compared.size()));
  if (compared.empty()) return result;
  const bool shared = compared.size() >= cells_for_a_shift;
  Pool pool(shared, settings);
  std::vector<bool> uneven(compared.size());
  for (const History& history : histories) {
    std::vector<double> of_forks;
    for (const CellSessions& cell : history) {
      Within forks;
      for (const auto& session : cell.sessions)
        for (const RunValues& run : session) forks.add(run);
      of_forks.push_back(forks.variance());
    }
    pool.add(history, of_forks);
  }
  const std::vector<Located> places = pool.add(base, variances, &uneven);
  const std::vector<double> shifts = pool.shifts();
  Spread spread;
  pool.put_into(spread);
  result.between_runs = std::sqrt(spread.of_runs);
  const OwnVariances own(spread, pool.between_runs(), places);
  std::vector<double> differences, errors;
  for (std::size_t i = 0; i < compared.size(); ++i) {
    const ModelCell& cell = cells[compared[i]];
    CellChange& change = result.cells[compared[i]].emplace();
    std::vector<double> means, fastest;
    double inverse = 0;
    std::size_t forks = cell.current.size();
    for (const auto& session : places[i].known()) means.push_back(session.front());
    for (std::size_t r = 0; r < cell.base.size(); ++r) {
      const RunValues& run = cell.base[r];
      if (run.empty()) continue;
      inverse += 1 / static_cast<double>(run.size());
      forks = std::min(forks, run.size());
      fastest.push_back(std::ranges::min(run) - (shifts.empty() ? 0 : shifts[r]));
    }
    const auto count = static_cast<double>(means.size());
    change.estimate = location(cell.current) - mean(means);
    change.of_fastest = std::ranges::min(cell.current) - mean(fastest);
    change.worst_pair = std::ranges::max(means) - std::ranges::min(means);
    change.baselines = static_cast<int>(means.size());
    change.forks = static_cast<int>(forks);
    change.confidence = result.confidence;
    change.uneven = uneven[i];
    change.spread = own.of(i);
    change.spread.of_forks = variances[i];
    change.spread.fork_degrees = within[i].degrees;
    const Sum sum = variance_of(change.spread, 1 + 1 / count,
                                1 / static_cast<double>(cell.current.size()) + inverse / (count * count));
    const double half = quantile_of(sum, result.confidence) * std::sqrt(sum.variance);
    change.lower = -half;
    change.upper = half;
    change.detectable =
        detectable_by(sum, std::max(settings.threshold, change.worst_pair), result.confidence);
    differences.push_back(change.estimate);
    errors.push_back(sum.variance);
  }
  double shift = 0;
  if (shared) {
    shift = median(differences);
    const double of_cells = of_median * mean(errors) / static_cast<double>(compared.size());
    const auto runs = static_cast<double>(cells.front().base.size());
    Sum sum;
    const double prior = settings.prior_degrees * settings.prior_deviation * settings.prior_deviation;
    const double squares = shifts.size() > 1 ? squares_about_mean(shifts) : 0;
    const double degrees = settings.prior_degrees + std::max(0.0, runs - 1);
    sum.add((prior + squares) / degrees * (1 + 1 / runs), degrees);
    sum.add(of_cells, degrees);
    const double half = quantile_of(sum, 0.95) * std::sqrt(sum.variance);
    result.shift = CommonShift{shift, shift - half, shift + half};
  }
  for (const std::size_t c : compared) {
    CellChange& change = *result.cells[c];
    change.with_shift = change.estimate;
    change.estimate -= shift;
    change.of_fastest -= shift;
    change.lower += change.estimate;
    change.upper += change.estimate;
  }
  return result;
}

bool shows_change(const CellChange& change, double threshold) {
  return (change.lower > 0 || change.upper < 0) && std::abs(change.estimate) >= threshold;
}

bool is_beyond_baselines(const CellChange& change) { return std::abs(change.estimate) > change.worst_pair; }

bool is_in_own_time(const CellChange& change) { return change.with_shift / change.estimate >= 0.5; }

bool is_in_every_fork(const CellChange& change) { return change.of_fastest / change.estimate >= 0.5; }

Verdict verdict_of(const CellChange& change, double threshold, double detect) {
  if (change.uneven) return Verdict::inconclusive;
  if (!shows_change(change, threshold))
    return change.detectable <= detect ? Verdict::same : Verdict::inconclusive;
  if (!is_beyond_baselines(change) || !is_in_every_fork(change) || !is_in_own_time(change))
    return Verdict::inconclusive;
  return change.estimate > 0 ? Verdict::slower : Verdict::faster;
}

std::vector<std::optional<Spread>> spreads_of(const History& history, const ModelSettings& settings) {
  std::vector<double> variances;
  std::vector<double> degrees;
  for (const CellSessions& cell : history) {
    Within forks;
    for (const auto& session : cell.sessions)
      for (const RunValues& run : session) forks.add(run);
    variances.push_back(forks.variance());
    degrees.push_back(forks.degrees);
  }
  Pool pool(history.size() >= cells_for_a_shift, settings);
  pool.add(history, variances);
  std::vector<std::optional<Spread>> found;
  for (std::size_t c = 0; c < history.size(); ++c) {
    found.emplace_back();
    if (degrees[c] < 1) continue;
    found.back().emplace();
    found.back()->of_forks = variances[c];
    found.back()->fork_degrees = degrees[c];
    pool.put_into(*found.back());
  }
  return found;
}

}  // namespace assay
