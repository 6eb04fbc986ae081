#include "harness/conductor/fork/fork_verdict.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "harness/conductor/check/self_judge.hpp"
#include "harness/conductor/check/tolerance.hpp"
#include "harness/core/text.hpp"

namespace assay {

void reject_uncompiled(Fork& fork, const Cell& cell) {
  const auto graphs = fork.settings.find("compiled_graphs");
  if (fork.status != Status::ok || !contains(cell.backend->compiles, cell.axes.mode) ||
      graphs == fork.settings.end() || graphs->second != "0")
    return;
  end_with(fork, ReasonCode::nothing_compiled,
           fmt::format(
               "the mode {} compiles, but the worker compiled nothing (compiled_graphs: 0): a setting or a "
               "variable of --environment turns {}'s compiler off",
               cell.axes.mode, cell.backend->name));
}

void explain_precision(Equivalence& verified, const Fork& fork, const Cell& cell) {
  const auto own = fork.settings.find("computes_in");
  const std::string_view asked = to_string(cell.axes.precision);
  if (!verified.checked || verified.passed || own == fork.settings.end() || own->second == asked) return;
  verified.reason += fmt::format(
      "; it computes in {} by itself, and the cell is in {}: use another mode of {}, or --precision {}",
      printable(own->second, 40), asked, cell.backend->name, printable(own->second, 40));
}

void warn_of_wider_precision(Fork& fork, const Equivalence& verified, const Cell& cell) {
  constexpr double as_near_as_single =
      1.0 / 500;  // of the bound; correct bf16 was at 1/25 and above, fp32 at 1e-5
  if (!is_narrow(precision_of(cell.axes.precision)) || cell.axes.is_op() || !verified.passed) return;
  double nearest_miss = 0;
  bool any = false;
  for (const TensorVerdict& tensor : verified.tensors) {
    if (!tensor.name.ends_with("logits") || tensor.name.starts_with("run/")) continue;
    any = true;
    nearest_miss = std::max(nearest_miss, tensor.ratio);
  }
  if (!any || nearest_miss > as_near_as_single) return;
  fork.warnings.push_back(fmt::format(
      "its logits are as near to the oracle's as those of fp32: it seems to compute in more than {}, so its "
      "time is not that of {}",
      to_string(cell.axes.precision), to_string(cell.axes.precision)));
}

void reject_infinite_parameters(Fork& fork, Equivalence& verified) {
  if (verified.not_finite.empty() || !differs_only_after_run(verified)) return;
  end_with(
      fork, ReasonCode::parameters_not_finite,
      fmt::format(
          "the timed steps left {} with values that are not finite; the learning rate, the samples or the "
          "initial values may be too large; assay check examines the backend without them",
          verified.not_finite));
  verified.checked = verified.passed = false;
  verified.reason = fork.reason;
}

void resolve_exam(Fork& fork, const Equivalence& equivalence, const std::string& changed) {
  const bool wrong = equivalence.checked && !equivalence.passed;
  if (!wrong && changed.empty()) return;
  if (wrong)
    end_with(fork, ReasonCode::differs_from_oracle, equivalence.reason);
  else
    end_with(fork, ReasonCode::exam_changed, changed);
}

void reject_changed_backend(Fork& fork, const BackendDescription& backend, const BackendDigest& before) {
  const std::string name = changed_backend_file(before, digest_of(backend));
  if (name.empty()) return;
  end_with(fork, ReasonCode::backend_changed,
           fmt::format(
               "{} of the backend {} was changed while its worker ran: do not change a backend during a run",
               name, backend.name));
}

bool reject_changed_data(Fork& fork, const PreparedDataset& data) {
  const std::string change = data.in_place.change();
  if (change.empty()) return false;
  end_with(fork, ReasonCode::data_changed,
           fmt::format(
               "{} during the run: forks on other data must not be mixed; restore the data and continue with "
               "--resume, or measure into a new report",
               change));
  return true;
}

void reject_unlike_ranks(Fork& fork, Equivalence& verified) {
  for (const RankRecord& rank : fork.ranks) {
    if (rank.parameters_digest == fork.ranks.front().parameters_digest) continue;
    end_with(fork, ReasonCode::ranks_differ,
             fmt::format("rank {} ended its timed steps with other parameters than rank 0", rank.rank));
    verified.passed = false;
    verified.reason = fork.reason;
    return;
  }
}

}  // namespace assay
