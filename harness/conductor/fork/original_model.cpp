#include "harness/conductor/fork/original_model.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/protocol/original.hpp"

namespace assay {
namespace {

struct ImportRecord {
  std::optional<OriginalModel> original{};
  std::map<std::string, std::string> bound{};
};
Description describe(Of<ImportRecord>) {
  return fields("provenance", "provenance.json, as far as this program reads it.",
                field("original", &ImportRecord::original, "How the file computes the network.").optional(),
                field("bound", &ImportRecord::bound, "The inputs that were bound.").optional());
}

// Nothing if the network is not one of a file of ONNX.
std::optional<OriginalModel> original_of(const ImportedNetwork& network) {
  const std::filesystem::path file = network.folder / network_provenance_name;
  auto record = decoded<ImportRecord>(read_strict_json(file, {std::size_t{64} << 20, 16}), file.string());
  if (!record.original) return std::nullopt;
  record.original->bound = record.bound;
  return record.original;
}

// Its tensors have the names of the source.
std::string why_not(const ImportedNetwork& network, const PublishedWeights& weights, const std::string& name,
                    std::int64_t batch) {
  if (weights.are_given(name))
    return "mode original runs the user's own file with its own weights; leave out --weights, or use another mode";
  const std::optional<OriginalModel> original = original_of(network);
  if (!original)
    return "provenance.json does not say how original.onnx computes the network; use another mode";
  if (original->batch > 0 && original->batch != batch)
    return fmt::format(
        "mode original runs the user's own file, in which a batch of {} is written; use --batch {}, or another mode",
        original->batch, original->batch);
  for (const std::string& drawn : weights.drawn(name)) {
    const std::string& source = network.names.at(drawn);
    if (std::ranges::find(original->drawn, source, &OriginalTensor::tensor) == original->drawn.end())
      return fmt::format(
          "mode original runs the user's own file, and '{}' is drawn here, because weights.safetensors lacks it; use "
          "another mode",
          source);
  }
  return "";
}

}  // namespace

void mark_without_original(std::vector<Cell>& cells, const PublishedWeights* weights) {
  for (Cell& cell : cells) {
    if (!cell.runnable() || cell.axes.mode != original_mode || cell.axes.is_op()) continue;
    const auto& network = cell.network().workload->imported;
    if (!network || weights == nullptr) continue;  // refused by a rule of the backend
    std::string why = why_not(*network, *weights, cell.axes.workload, cell.axes.batch);
    if (why.empty()) continue;
    cell.status = Status::unsupported;
    cell.reason_code = ReasonCode::refused_by_rule;
    cell.reason = fmt::format("[{}] {}", cell.axes.backend, why);
  }
}

void write_original(const std::filesystem::path& cell_folder, const Cell& cell) {
  const ImportedNetwork& network = *cell.network().workload->imported;
  std::optional<OriginalModel> original = original_of(network);
  if (!original)
    throw JsonError(
        fmt::format("{}: has no 'original'", (network.folder / network_provenance_name).string()));
  for (OriginalTensor& drawn : original->drawn)
    for (const auto& [plain, source] : network.names)
      if (source == drawn.tensor) {
        drawn.tensor = plain;
        break;
      }
  write_atomically(cell_folder / "original.json", encode(*original).dump(1) + "\n", false);
  copy_atomically(network.folder / network_original_name, cell_folder / network_original_name, false);
}

}  // namespace assay
