#include "harness/conductor/compare/scatter.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace assay {
namespace {

using Logs = std::vector<double>;

double mean(const Logs& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double sum_of_squares(const Logs& values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return sum;
}

// Variance of forks, pooled over all runs.
double within_runs(const std::vector<std::vector<Logs>>& sessions) {
  double squares = 0, degrees = 0;
  for (const auto& runs : sessions)
    for (const Logs& run : runs) {
      squares += sum_of_squares(run);
      degrees += static_cast<double>(run.size()) - 1;
    }
  return degrees > 0 ? squares / degrees : 0;
}

struct Between {
  double variance = 0;  // may be below 0 by chance
  double degrees = 0;
};

Between of_one_session(const std::vector<Logs>& runs, double within) {
  double count = 0, squares = 0, grand = 0, between = 0;
  Logs means;
  for (const Logs& run : runs) {
    const auto n = static_cast<double>(run.size());
    means.push_back(mean(run));
    count += n;
    squares += n * n;
    grand += n * means.back();
  }
  grand /= count;
  for (std::size_t i = 0; i < runs.size(); ++i)
    between += static_cast<double>(runs[i].size()) * (means[i] - grand) * (means[i] - grand);
  const double degrees = static_cast<double>(runs.size()) - 1;
  // The effective number of forks per run, if the runs differ in it.
  const double each = (count - squares / count) / degrees;
  return {(between / degrees - within) / each, degrees};
}

// The mean of each run has equal weight in its session, and so has the mean of each session.
Between of_sessions(const std::vector<std::vector<Logs>>& sessions, double within) {
  Logs session_means;
  double runs = 0, squares = 0, inverse_runs = 0, inverse_forks = 0;
  for (const auto& session : sessions) {
    Logs means;
    for (const Logs& run : session) {
      means.push_back(mean(run));
      inverse_forks += 1 / static_cast<double>(run.size());
    }
    session_means.push_back(mean(means));
    squares += sum_of_squares(means);
    runs += static_cast<double>(session.size());
    inverse_runs += 1 / static_cast<double>(session.size());
  }
  const auto count = static_cast<double>(sessions.size());
  const double of_means = sum_of_squares(session_means) / (count - 1);
  // The part of the variance of runs that is not in the variance of session means.
  const double rest = runs > count ? (1 - inverse_runs / count) * squares / (runs - count) : 0;
  const double total = of_means + rest;
  double inverse_degrees = of_means * of_means / (count - 1);
  if (runs > count) inverse_degrees += rest * rest / (runs - count);
  return {total - within * inverse_forks / runs,
          inverse_degrees > 0 ? total * total / inverse_degrees : runs - 1};
}

}  // namespace

Scatter scatter_of(const std::vector<std::vector<Logs>>& sessions) {
  const double within = within_runs(sessions);
  const Between between =
      sessions.size() == 1 ? of_one_session(sessions.front(), within) : of_sessions(sessions, within);
  return {std::sqrt(within), std::sqrt(std::max(0.0, between.variance)),
          std::max(1, static_cast<int>(between.degrees))};
}

}  // namespace assay
