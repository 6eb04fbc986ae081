#include "harness/report/flag_rates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

struct Tally {
  int forks = 0, flagged = 0;
};
using Tallies = std::map<std::string, Tally>;                            // by backend
using ByStratum = std::map<std::tuple<std::string, RoundKey>, Tallies>;  // by group and round

ByStratum tallies_of(const Report& report, const char* flag) {
  ByStratum found;
  for (const CellReport& cell : report.cells) {
    const std::string group = group_title(cell.axes);
    for (const Fork& fork : cell.forks) {
      if (fork.status != Status::ok) continue;
      Tally& tally = found[{group, round_of(fork)}][cell.axes.backend];
      ++tally.forks;
      if (contains(fork.flags, flag)) ++tally.flagged;
    }
  }
  return found;
}

double log_choose(int n, int k) { return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1); }

// The distribution of the number of flagged forks of a backend, from its least possible value on.
struct Chances {
  int least = 0;
  std::vector<double> of{1.0};

  // Of `forks`, `own` are the backend's, and `flagged` were drawn from all of them.
  void add(int forks, int own, int flagged) {
    const int low = std::max(0, flagged - (forks - own)), high = std::min(own, flagged);
    std::vector<double> sum(of.size() + static_cast<std::size_t>(high - low), 0.0);
    for (int k = low; k <= high; ++k) {
      const double chance =
          std::exp(log_choose(own, k) + log_choose(forks - own, flagged - k) - log_choose(forks, flagged));
      for (std::size_t i = 0; i < of.size(); ++i)
        sum[i + static_cast<std::size_t>(k - low)] += of[i] * chance;
    }
    least += low;
    of = std::move(sum);
  }
};

std::optional<double> chance_of(const ByStratum& strata, const std::string& backend) {
  Chances chances;
  int flagged = 0;
  for (const auto& [stratum, tallies] : strata) {
    const auto own = tallies.find(backend);
    if (own == tallies.end()) continue;
    Tally all;
    for (const auto& [name, tally] : tallies) {
      all.forks += tally.forks;
      all.flagged += tally.flagged;
    }
    flagged += own->second.flagged;
    chances.add(all.forks, own->second.forks, all.flagged);
  }
  if (chances.of.size() < 2) return std::nullopt;
  constexpr double or_as_likely = 1 + 1e-7;
  const double limit = or_as_likely * chances.of[static_cast<std::size_t>(flagged - chances.least)];
  double sum = 0;
  for (const double chance : chances.of)
    if (chance <= limit) sum += chance;
  return std::min(1.0, sum);
}

}  // namespace

std::vector<FlagRate> flag_rates(const Report& report) {
  constexpr double max_chance = 0.01;
  std::vector<FlagRate> rates;
  for (const char* flag :
       {quality_flag::disturbed, quality_flag::uncovered, quality_flag::placement, quality_flag::frozen,
        quality_flag::quota, quality_flag::fewer_threads, quality_flag::stolen}) {
    const ByStratum strata = tallies_of(report, flag);
    Tallies all;
    int flagged = 0;
    for (const auto& [stratum, tallies] : strata)
      for (const auto& [backend, tally] : tallies) {
        all[backend].forks += tally.forks;
        all[backend].flagged += tally.flagged;
        flagged += tally.flagged;
      }
    for (const auto& [backend, tally] : all) {
      if (flagged == 0) break;
      FlagRate rate{.flag = flag, .backend = backend, .forks = tally.forks, .flagged = tally.flagged};
      rate.p = chance_of(strata, backend);
      rate.differs = rate.p && *rate.p < max_chance / static_cast<double>(all.size());
      rates.push_back(std::move(rate));
    }
  }
  return rates;
}

}  // namespace assay
