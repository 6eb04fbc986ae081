#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "harness/core/text.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metric_table.hpp"
#include "harness/report/metrics.hpp"

namespace assay {
namespace {

bool has_value(const CellReport& cell) {
  return std::any_of(cell.metrics.begin(), cell.metrics.end(),
                     [](const auto& item) { return item.second.value && !is_planned(item.first); });
}

// --forks and --spare-rounds allow fewer. Comparing takes memory and time by the square.
constexpr std::size_t max_forks = 12'000;

void validate_forks(Violations& violations, const CellReport& cell) {
  if (cell.forks.size() > max_forks)
    violations.add(fmt::format("has {} forks, and {} are the maximum", cell.forks.size(), max_forks));
  std::set<int> rounds;
  for (const Fork& fork : cell.forks) {
    Violations inner = violations.within(fmt::format("fork of round {}", fork.round));
    if (!rounds.insert(fork.round).second) inner.add("a second fork of this round");
    validate_fork(inner, fork);
    if (fork.device_timed && (!cell.axes.is_op() || cell.axes.device == DeviceKind::cpu))
      inner.add("has a time on the device alone, which only a single op on a GPU has");
    const int ranks = cell.axes.ranks();
    if (fork.status == Status::ok && std::ssize(fork.ranks) != (ranks > 1 ? ranks : 0))
      inner.add(fmt::format("has the records of {}, but the cell has {}", plural(fork.ranks.size(), "rank"),
                            ranks));
    violations.take(inner);
  }
}

// Forks that are ok executed the same files and read the same data.
void validate_digests(Violations& violations, const CellReport& cell) {
  for (const auto& [name, digest] :
       {std::pair{"adapter", &Fork::adapter_digest}, std::pair{"program", &Fork::program_digest},
        std::pair{"data", &Fork::data_digest}}) {
    std::set<std::string> found;
    for (const Fork* fork : ok_forks(cell))
      if (!(fork->*digest).empty()) found.insert(fork->*digest);
    if (found.size() > 1)
      violations.add(
          fmt::format("its forks have {} values of {}_digest: they must not be mixed", found.size(), name));
  }
}

}  // namespace

void validate_metric(Violations& violations, const std::string& name, const Metric& metric) {
  const auto add = [&](const std::string& what) { violations.add(fmt::format("metric {}: {}", name, what)); };
  if (!metric.value && metric.reason.empty()) add("is null without a reason");
  if (metric.value && !std::isfinite(*metric.value)) add("is not finite");
  const int bounds = metric.lower.has_value() + metric.upper.has_value() + metric.confidence.has_value();
  if (bounds != 0 && bounds != 3) add("must have all of lower, upper and confidence, or none");
  if (bounds != 0 && metric.n < 6)
    add(fmt::format("has bounds from {}; below six they are null", plural(metric.n, "fork")));
  if (metric.lower && metric.upper && metric.value &&
      !(*metric.lower <= *metric.value && *metric.value <= *metric.upper))
    add(fmt::format("value {} is outside of its bounds {} to {}", *metric.value, *metric.lower,
                    *metric.upper));
  if (metric.confidence && !(*metric.confidence > 0 && *metric.confidence < 1))
    add(fmt::format("confidence {} is outside 0 to 1", *metric.confidence));
  if (metric.n < 0 || (metric.value && metric.n < 1)) add(fmt::format("has a value from {} forks", metric.n));
  const MetricRow* row = find_metric(name);
  const bool amount = metric.hint != Hint::number && metric.hint != Hint::ratio && !(row && row->difference);
  if (amount && metric.value && *metric.value < 0) add(fmt::format("is negative: {}", *metric.value));
  if (is_accuracy(name) && metric.value && *metric.value > 1)
    add(fmt::format("{} is above 1", *metric.value));
}

void validate_equivalence(Violations& violations, const CellReport& cell) {
  const Equivalence& equivalence = cell.equivalence;
  std::set<std::string> names;
  double worst = 0;
  for (const TensorVerdict& tensor : equivalence.tensors) {
    if (!names.insert(tensor.name).second)
      violations.add(fmt::format("tensor {} is listed twice", tensor.name));
    // The shape of a tensor that is beyond measure is in no error.
    if (const double ratio = std::max(ratio_of(tensor.max_error, tensor.max_bound),
                                      ratio_of(tensor.l2_error, tensor.l2_bound));
        tensor.ratio != beyond_measure &&
        std::abs(tensor.ratio - ratio) > 1e-6 * std::max(tensor.ratio, ratio))
      violations.add(fmt::format("tensor {}: the ratio is {}, but its errors and bounds give {}", tensor.name,
                                 tensor.ratio, ratio));
    worst = std::isnan(tensor.ratio) ? tensor.ratio : std::max(worst, tensor.ratio);
    if (std::isnan(worst)) break;
  }
  for (const Ties& ties : equivalence.ties) {
    if (ties.tipped > ties.elements)
      violations.add(fmt::format("{} has {} on another side, but only {}", ties.op,
                                 plural(ties.tipped, "element"), plural(ties.elements, "element")));
  }
  if (equivalence.passed && !equivalence.checked) violations.add("equivalence passed but was not checked");
  if (equivalence.passed && !(worst <= 1 && equivalence.worst <= 1))
    violations.add(fmt::format("equivalence passed with a ratio of {} to the bound",
                               std::max(worst, equivalence.worst)));
  if (!equivalence.passed && equivalence.reason.empty() && (equivalence.checked || cell.status == Status::ok))
    violations.add("equivalence did not pass, without a reason");
  if (!equivalence.tensors.empty() && !std::isnan(worst) &&
      std::abs(worst - equivalence.worst) > 1e-9 * worst)
    violations.add(fmt::format("worst is {}, but its tensors give {}", equivalence.worst, worst));
  if (cell.status == Status::ok && equivalence.checked && !equivalence.passed)
    violations.add("is ok, but its equivalence check failed: it should be wrong_result");
  if (cell.status == Status::wrong_result && equivalence.passed)
    violations.add("is wrong_result, but its equivalence check passed");
}

void validate_cell(Violations& violations, const CellReport& cell) {
  if (const std::string id = cell_id(cell.axes); cell.id != id)
    violations.add(fmt::format("the id does not match its axes, which give {}", id));
  if (cell.axes.batch < 1) violations.add(fmt::format("batch {}", cell.axes.batch));
  if (cell.axes.threads < 1) violations.add(fmt::format("{} threads", cell.axes.threads));
  if (cell.status != Status::ok && cell.reason.empty())
    violations.add(fmt::format("is {} without a reason", to_string(cell.status)));
  validate_code(violations, cell.status, cell.reason_code);
  if (cell.status == Status::wrong_result && has_value(cell))
    violations.add("is wrong_result, but has metrics: a wrong computation must not be timed");
  if (cell.status == Status::ok && has_value(cell) && ok_forks(cell).empty())
    violations.add("is ok and has metrics, but no fork is ok");
  for (const auto& [name, metric] : cell.metrics) validate_metric(violations, name, metric);
  for (const Published& published : cell.published)
    if (!published.value && published.statement.empty())
      violations.add(fmt::format("published {} has neither a value nor a statement", published.metric));
  validate_equivalence(violations, cell);
  validate_forks(violations, cell);
  validate_digests(violations, cell);
}

}  // namespace assay
