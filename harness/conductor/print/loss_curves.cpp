#include "harness/conductor/print/loss_curves.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "harness/core/statistics.hpp"

namespace assay {
namespace {

constexpr std::size_t fewest_epochs = 5;
constexpr std::size_t most_columns = 10;

using Curve = std::map<int, double>;  // epoch -> loss

Curve curve_of(const CellReport& cell) {
  std::map<int, std::vector<double>> losses;
  std::size_t forks = 0;
  for (const Fork& fork : cell.forks) {
    if (fork.status != Status::ok) continue;
    ++forks;
    for (const Evaluation& evaluation : fork.evaluations) {
      if (evaluation.split == DataSplit::train && evaluation.epoch > 0)
        losses[evaluation.epoch].push_back(evaluation.loss);
    }
  }
  Curve curve;
  for (const auto& [epoch, values] : losses) {
    if (values.size() == forks) curve[epoch] = median(values);
  }
  return curve.size() < fewest_epochs ? Curve{} : curve;
}

// The first, the last, and what lies evenly between them.
std::vector<int> shown_epochs(const std::set<int>& all) {
  const std::vector<int> epochs(all.begin(), all.end());
  if (epochs.size() <= most_columns) return epochs;
  std::vector<int> shown;
  for (std::size_t i = 0; i < most_columns; ++i)
    shown.push_back(epochs[i * (epochs.size() - 1) / (most_columns - 1)]);
  return shown;
}

}  // namespace

Table loss_curves(const Report& report, const ComparisonGroup& group) {
  Table table{
      .title = "Training loss after epoch", .columns = {{"backend"}, {"mode"}}, .rows = {}, .notes = {}};
  std::vector<std::pair<const CellReport*, Curve>> curves;
  std::set<int> epochs;
  for (const std::size_t i : group.cells) {
    Curve curve = curve_of(report.cells[i]);
    for (const auto& [epoch, loss] : curve) epochs.insert(epoch);
    if (!curve.empty()) curves.emplace_back(&report.cells[i], std::move(curve));
  }
  const std::vector<int> shown = shown_epochs(epochs);
  for (const int epoch : shown) table.columns.push_back({std::to_string(epoch), Align::right});
  for (const auto& [cell, curve] : curves) {
    std::vector<Entry> row{{cell->axes.backend}, {cell->axes.mode}};
    for (const int epoch : shown) {
      const auto found = curve.find(epoch);
      row.push_back({found == curve.end() ? "-" : format_significant(found->second)});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace assay
