#include "harness/conductor/config/ranks.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "harness/core/paths.hpp"
#include "harness/graph/op.hpp"
#include "harness/machine/gpu_sampler.hpp"

namespace assay {
namespace {

constexpr std::int64_t min_normalised = 2;

bool has_op(const Graph& graph, std::string_view name) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) { return node.op->name() == name; });
}

// NCCL is what exchanges gradients between GPUs.
bool has_nccl(const BackendDescription& backend) {
  return std::ranges::find(backend.collectives, "nccl") != backend.collectives.end();
}

// On this machine: a launcher may use others.
bool needs_gpus(const Cell& cell) {
  return cell.axes.ranks() > 1 && cell.axes.device == DeviceKind::cuda && cell.launcher == Launcher::fork;
}

// Whether the mean loss leaves out some labels: then the mean over ranks is not the mean over the batch.
bool ignores_labels(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return node.attributes.has("ignored"); });
}

}  // namespace

std::string ranks_refusal(const Cell& cell) {
  if (cell.axes.ranks() == 1) return {};
  if (cell.backend->collectives.empty())
    return fmt::format("[{}] does not support --ranks above 1: its backend.json names no collectives",
                       cell.backend->name);
  if (cell.axes.task != Task::train)
    return "[ranks] ranks share only the training of a model; use --task train";
  const Graph& graph = cell.program->graph(Task::train);
  if (cell.axes.device == DeviceKind::cuda && !has_nccl(*cell.backend))
    return "[ranks] its ranks do not exchange gradients between GPUs; use --device cpu";
  if (cell.axes.loader == LoaderKind::native)
    return "[ranks] a framework's own loader does not read the part of a rank; use --loader harness";
  if (has_op(graph, "batch_norm")) {
    // One sample has no variance where its feature map is a single pixel.
    if (cell.axes.batch / cell.axes.ranks() < min_normalised)
      return fmt::format("[ranks] batch norm needs {} rows or more for each rank; use --batch {}",
                         min_normalised, min_normalised * cell.axes.ranks());
    if (cell.check && cell.distinct < min_normalised)
      return fmt::format(
          "[ranks] batch norm needs {} distinct samples or more for each rank; use --distinct {}",
          min_normalised, min_normalised);
  }
  if (ignores_labels(graph))
    return "[ranks] the loss leaves out labels, so the mean over ranks is not the mean over the batch; use "
           "--ranks 1";
  return {};
}

std::string gpus_refusal(const Cell& cell) {
  if (!needs_gpus(cell)) return {};
  const NvmlAccess& access = nvml_access();
  const std::optional<unsigned> count = access.nvml ? access.nvml->count().value : std::nullopt;
  if (!count) return {};
  return gpus_refusal(cell, visible_gpus(environment_variable("CUDA_VISIBLE_DEVICES"), *count));
}

std::string gpus_refusal(const Cell& cell, const std::vector<std::string>& gpus) {
  const int ranks = cell.axes.ranks();
  if (!needs_gpus(cell) || static_cast<int>(gpus.size()) >= ranks) return {};
  return fmt::format(
      "[ranks] {} ranks need as many GPUs, and {} can be used here; use --ranks {}, or look at "
      "CUDA_VISIBLE_DEVICES",
      ranks, gpus.size(), std::max<std::size_t>(1, gpus.size()));
}

Cell cell_of_rank(const Cell& cell) {
  Cell own = cell;
  if (cell.axes.ranks() == 1) return own;
  own.axes.batch /= cell.axes.ranks();
  own.program = std::make_shared<const Program>(own.build());
  return own;
}

}  // namespace assay
