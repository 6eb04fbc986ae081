#include "harness/conductor/print/report_tables.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace assay {
namespace {

constexpr std::size_t min_epochs = 5;
constexpr std::size_t max_columns = 10;

// The first, the last, and evenly spaced epochs between them.
std::vector<int> shown_epochs(const std::set<int>& all) {
  const std::vector<int> epochs(all.begin(), all.end());
  if (epochs.size() <= max_columns) return epochs;
  std::vector<int> shown;
  for (std::size_t i = 0; i < max_columns; ++i)
    shown.push_back(epochs[i * (epochs.size() - 1) / (max_columns - 1)]);
  return shown;
}

}  // namespace

Table loss_curves(const Analysis& all, const AnalyzedGroup& group) {
  Table table{
      .title = "Training loss after epoch", .columns = {{"backend"}, {"mode"}}, .rows = {}, .notes = {}};
  std::vector<const AnalyzedCell*> cells;
  std::set<int> epochs;
  for (const std::size_t i : group.cells) {
    const AnalyzedCell& cell = all.cells[i];
    if (cell.train_loss.size() < min_epochs) continue;
    cells.push_back(&cell);
    for (const CurvePoint& point : cell.train_loss) epochs.insert(point.epoch);
  }
  const std::vector<int> shown = shown_epochs(epochs);
  for (const int epoch : shown) table.columns.push_back({std::to_string(epoch), Align::right});
  for (const AnalyzedCell* cell : cells) {
    std::vector<Entry> row{{cell->cell->axes.backend}, {mode_words(cell->cell->axes)}};
    for (const int epoch : shown) {
      const auto found = std::find_if(cell->train_loss.begin(), cell->train_loss.end(),
                                      [epoch](const CurvePoint& point) { return point.epoch == epoch; });
      row.push_back({found == cell->train_loss.end() ? "-" : format_significant(found->median)});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace assay
