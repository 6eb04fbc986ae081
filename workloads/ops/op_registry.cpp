#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "workloads/ops/list.hpp"

namespace assay {

std::vector<std::string> element_sweep() { return {"16", "256", "4096", "65536", "1048576", "4194304"}; }

std::vector<std::string> matrix_sweep() { return {"m4", "m16", "m64", "m256", "m1024", "m2048"}; }

std::span<const OpWorkload> all_op_workloads() {
  static const std::vector<OpWorkload> ops = [] {
    std::vector<OpWorkload> all;
    for (auto list : {pointwise_op_workloads, matrix_op_workloads, row_op_workloads, image_op_workloads,
                      sequence_op_workloads, shape_op_workloads}) {
      for (OpWorkload& op : list()) all.push_back(std::move(op));
    }
    return all;
  }();
  return ops;
}

const OpWorkload& find_op_workload(std::string_view name) {
  std::vector<std::string> known;
  for (const OpWorkload& op : all_op_workloads()) {
    if (op.name == name) return op;
    known.push_back(op.name);
  }
  throw GraphError(fmt::format("'{}' is not a workload{}", name.substr(0, 80), suggestion(name, known)));
}

}  // namespace assay
