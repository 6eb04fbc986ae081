// The axes of a cell: what identifies it within a report.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace assay {

// The axes of a cell, in the order in which they make its id.
struct Axes {
  std::string workload{}, backend{}, device = "cpu", mode{}, task = "train", precision = "fp32",
                                     layout = "native";
  std::int64_t batch = 0;
  std::string dataset{}, loader = "resident";
  int loader_workers = 1;
  std::string optimizer{};
  int threads = 1;
  std::string compile_cache = "cold";
  bool deterministic = false;
  std::string measure{};  // "steps" or "epochs:15"
  // Further axes by option name, where they differ from the workload's own: {"schedule", "every:10x0.9"}.
  std::map<std::string, std::string> variant{};
  // Of a single op; empty for a network.
  std::string size{};   // "m1760n16k1760"
  std::string cache{};  // "warm": one set of operands, "cold": sets that the last-level cache cannot hold

  bool is_op() const { return !size.empty(); }
};
// visit(key, field) of every axis that each cell has, by its key in the report: all but `variant`, and `size`
// and `cache` of single ops. The one list of them.
template <typename AnyAxes, typename Visit>
void for_each_axis(AnyAxes& axes, const Visit& visit) {
  visit("workload", axes.workload);
  visit("backend", axes.backend);
  visit("device", axes.device);
  visit("mode", axes.mode);
  visit("task", axes.task);
  visit("precision", axes.precision);
  visit("layout", axes.layout);
  visit("batch", axes.batch);
  visit("dataset", axes.dataset);
  visit("loader", axes.loader);
  visit("loader_workers", axes.loader_workers);
  visit("optimizer", axes.optimizer);
  visit("threads", axes.threads);
  visit("compile_cache", axes.compile_cache);
  visit("deterministic", axes.deterministic);
  visit("measure", axes.measure);
}
// "lenet5/onednn/cpu/graph/train/fp32/native/b200/fashion-mnist/resident/adam/t2/steps", of a single op
// "op/relu/onednn/cpu/graph/infer/fp32/native/4096/warm/t2/steps"; unique in a report.
std::string cell_id(const Axes& axes);

}  // namespace assay
