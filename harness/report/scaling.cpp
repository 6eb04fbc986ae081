// The scaling efficiency of cells with several ranks.
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "harness/report/analysis.hpp"

namespace assay {
namespace {

std::string id_of_one_rank(Axes axes, std::int64_t batch) {
  set_axis(*find_axis("ranks"), axes, "1");
  axes.batch = batch;
  return cell_id(axes);
}

PairedRatio multiplied(PairedRatio ratio, double factor) {
  for (double* value : {&ratio.value, &ratio.least, &ratio.greatest}) *value *= factor;
  for (std::optional<double>* bound : {&ratio.lower, &ratio.upper})
    if (*bound) **bound *= factor;
  return ratio;
}

}  // namespace

void add_scaling(Analysis& all) {
  std::map<std::pair<std::size_t, std::string_view>, std::size_t> by_id;
  for (std::size_t i = 0; i < all.cells.size(); ++i)
    by_id.try_emplace({all.cells[i].report, all.cells[i].cell->id}, i);
  for (std::size_t i = 0; i < all.cells.size(); ++i) {
    const Axes& axes = all.report_cell(i).axes;
    const int ranks = axes.ranks();
    if (ranks == 1) continue;
    const auto add = [&](ScalingKind kind, std::int64_t batch, double factor) {
      const std::string id = id_of_one_rank(axes, batch);
      const auto base = by_id.find({all.cells[i].report, id});
      if (base == by_id.end()) return;
      if (const auto ratio = time_ratio(all.report_cell(base->second), all.report_cell(i)))
        all.scaling.push_back({i, base->second, kind, multiplied(*ratio, factor)});
    };
    add(ScalingKind::strong, axes.batch, 1.0 / ranks);
    if (axes.batch % ranks == 0) add(ScalingKind::weak, axes.batch / ranks, 1);
  }
}

}  // namespace assay
