#include "harness/conductor/cli/import_verification.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/config/registries.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/environment.hpp"
#include "workloads/imported_network.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;
using Outcome = Verification::Outcome;

constexpr const char* peer = "onnxruntime";
constexpr const char* mode = "original";

Verification left_out(const std::string& why) {
  return {Outcome::left_out, fmt::format("not verified: {}", why), {{"verified", false}, {"reason", why}}};
}

std::string why_impossible(const fs::path& folder, bool wanted, const BackendRegistry& backends) {
  if (!wanted) return "it was not wanted (--no-verify)";
  if (!fs::exists(folder / network_original_name))
    return "there is no other program that computes its file here; compare its accuracy with what you know";
  const BackendDescription* backend = backends.find(peer);
  if (backend == nullptr) return "the backend onnxruntime is not there";
  if (!backend->available()) return fmt::format("{}: {}", backend->unavailable, backend->remedy);
  return "";
}

CellReport checked(const fs::path& folder, int batch, Registries& registries) {
  RunRequest request;
  request.config = config_of({{"workload", {folder.string()}},
                              {"backend", {peer}},
                              {"mode", {mode}},
                              {"task", {"infer"}},
                              {"batch", {std::to_string(batch)}},
                              {"resident-batches", {"1"}}});
  request.environment = environment();
  request.check_only = true;
  Progress progress = Progress::quiet();
  RunOutcome outcome = run(request, cells_of(request, registries), registries, progress);
  return std::move(outcome.report.cells.front());
}

}  // namespace

Verification verify_import(const fs::path& folder, bool wanted, bool fixed_batch) {
  Registries registries;
  registries.backends = find_backends();
  if (const std::string why = why_impossible(folder, wanted, registries.backends); !why.empty())
    return left_out(why);
  registries.workloads.add_folder(folder.string());
  // Two samples show whether one reaches into the other, and the oracle of a large network takes minutes for more.
  int batch = fixed_batch ? 1 : 2;
  CellReport cell = checked(folder, batch, registries);
  if (batch > 1 && (cell.status == Status::failed || cell.status == Status::crashed)) {
    CellReport single = checked(folder, 1, registries);
    if (single.status == Status::ok || single.status == Status::interrupted) {
      cell = std::move(single);
      batch = 1;
    }
  }
  if (cell.status == Status::unsupported || cell.status == Status::unavailable) return left_out(cell.reason);
  if (cell.status == Status::interrupted)
    return {Outcome::failed, "its verification was interrupted; --no-verify makes it without that", {}};
  const bool passed = cell.status == Status::ok && cell.equivalence.passed;
  if (cell.status != Status::ok && cell.status != Status::wrong_result)
    return {Outcome::failed,
            fmt::format(
                "its file does not run in ONNX Runtime, so it is not verified: {} ({}); --no-verify makes it "
                "without that",
                one_line(cell.reason), to_string(cell.status)),
            {}};
  if (!passed)
    return {Outcome::failed,
            fmt::format("the network does not compute what its file computes in ONNX Runtime: {} ({})",
                        one_line(cell.reason), to_string(cell.status)),
            {}};
  const double worst = cell.equivalence.worst;
  const BuildInfo& build = build_info();
  return {
      Outcome::passed,
      fmt::format("verified with ONNX Runtime: its logits differ by {:.2g} of what rounding allows", worst),
      {{"verified", true},
       {"compared", "the file in ONNX Runtime with the network in fp64"},
       {"ratio_of_bound", worst},
       {"task", "infer"},
       {"batch", batch},
       {"cell", cell.id},
       {"assay", {{"version", build.version}, {"commit", build.commit}}},
       {"onnxruntime", cell.backend_version}}};
}

}  // namespace assay::cli
