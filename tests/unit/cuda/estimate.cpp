// What a training step of backend cuda asks of a GPU, without one: FLOPs and bytes, and of each kernel in mode graph its
// launches and library calls and the kernels that it waits for, as a JSON line. For scripts/lab/gpu-estimate:
//
//   assay-estimate-cuda NETWORK PRECISION BATCH FLOPS BYTES
//
// FLOPS and BYTES: what the GPU does in a second, for the time that no kernel can be below: each node takes at
// least as long as its FLOPs, and as its bytes. BATCH 0: the network's own.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/core/domain.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "tests/unit/cuda/step_without_work.hpp"

namespace assay::cuda {
namespace {

void estimate(const std::string& network, PrecisionKind precision, std::int64_t batch,
              double flops_each_second, double bytes_each_second) {
  const Workload& workload = find_workload(network);
  const std::int64_t samples = batch > 0 ? batch : workload.batch;
  const Program program = workload.build(samples);
  const Graph step = fused(training_step(program, {precision_of(precision), false, false}));
  double flops = 0, bytes = 0;
  std::map<std::string, double> seconds;  // by node
  for (const Node& node : step.nodes()) {
    if (node.op->view()) continue;
    const Cost once = cost(step, node);
    flops += once.flops;
    bytes += once.bytes;
    seconds[node.name] = std::max(once.flops / flops_each_second, once.bytes / bytes_each_second);
  }
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const KernelOfStep& kernel : kernels_of_a_step(program, precision)) {
    double least = 0;
    if (kernel.op != "reorder")
      for (const std::string& node : kernel.nodes) least += seconds[node];
    kernels.push_back({{"node", kernel.nodes.front()},
                       {"op", kernel.op},
                       {"launches", kernel.launches},
                       {"calls", kernel.calls},
                       {"seconds", least},
                       {"needs", kernel.needs}});
  }
  const nlohmann::ordered_json found{{"network", network}, {"precision", to_string(precision)},
                                     {"batch", samples},   {"flops", flops},
                                     {"bytes", bytes},     {"kernels", kernels}};
  fmt::print("{}\n", found.dump());
}

}  // namespace
}  // namespace assay::cuda

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "usage: assay-estimate-cuda NETWORK PRECISION BATCH FLOPS BYTES\n");
    return 2;
  }
  const auto precision = assay::from_word<assay::PrecisionKind>(argv[2]);
  if (!precision.has_value()) {
    fmt::print(stderr, "the precision {} is not known: fp32, tf32 or bf16\n", argv[2]);
    return 2;
  }
  try {
    assay::cuda::estimate(argv[1], *precision, std::stoll(argv[3]), std::stod(argv[4]), std::stod(argv[5]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
