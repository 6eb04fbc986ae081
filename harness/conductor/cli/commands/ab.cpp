// assay ab: measures two builds, backends or settings side by side until the result is clear.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/cli/run_options.hpp"
#include "harness/conductor/cli/verdict_options.hpp"
#include "harness/conductor/compare/ab.hpp"
#include "harness/conductor/compare/calibration.hpp"
#include "harness/conductor/compare/looks.hpp"
#include "harness/conductor/run/best_mode.hpp"
#include "harness/conductor/run/run.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct AbOptions {
  RunOptions run;
  VerdictOptions verdict;
  std::string a, b;
  int looks = 5, rounds = 0;
  bool dry_run = false;
};

fs::path default_folder() { return fs::path("reports") / ("ab-" + utc_now_for_file()); }

AbArm arm(const AbOptions& options, const AbSide& side, const Context& context) {
  AbArm made;
  made.request = options.run.request(context.command_line);
  const std::vector<std::string> common = list_of(made.request.config.values, "interpreter");
  made.request.config.override_with(side.values);
  // A side's interpreter replaces that of its framework only; the last one of a framework is used.
  if (side.values.contains("interpreter")) {
    std::vector<std::string>& all = made.request.config.values["interpreter"];
    all.insert(all.begin(), common.begin(), common.end());
  }
  if (flag_of(made.request.config.values, "quick"))
    throw UsageError(
        "ab does not support --quick: a quick run is not a measurement; use fewer --blocks or a shorter "
        "--block-seconds");
  const auto folders =
      side.build.empty() ? std::vector<fs::path>{} : backends_of_build(fs::absolute(side.build));
  made.registries = options.run.registries(made.request.config, folders);
  if (seeks_best(made.request.config))
    throw UsageError("ab does not support --mode best: it is a search; name the modes to compare");
  made.cells = cells_of(made.request, made.registries);
  return made;
}

// Throws UsageError for an interpreter that no cell uses: the sides would be the same.
void require_used_interpreters(const AbArm& arm, const AbSide& side, std::string_view option) {
  for (const auto& [framework, path] : parse_interpreters(list_of(side.values, "interpreter"))) {
    const bool is_used = std::ranges::any_of(
        arm.cells.cells, [&](const Cell& cell) { return cell.backend->framework == framework; });
    if (!is_used)
      throw UsageError(
          fmt::format("{}: got interpreter={}={}, but no cell uses {}; name its backend with --backend",
                      option, framework, path, framework));
  }
}

// The axes in which the cells of a pair may differ. A backend may recommend another mode on another device.
std::set<std::string> differing(const AbSide& a, const AbSide& b, const RunConfig& common) {
  std::set<std::string> names;
  for (const AbSide* side : {&a, &b})
    for (const auto& [name, values] : side->values) names.insert(name);
  if (names.contains("device") && !common.values.contains("mode")) names.insert("mode");
  return names;
}

int list_pairs(const AbArm& a, const AbArm& b, const std::set<std::string>& free) {
  const std::vector<Cell>&left = a.cells.cells, &right = b.cells.cells;
  Table table{.title = {}, .columns = {{"pair"}, {"a"}, {"b"}}, .rows = {}, .notes = {}};
  for (const CellPair& pair : pair_cells(left, right, free))
    table.rows.push_back({{pair.id},
                          {std::string(to_string(left[pair.a].status))},
                          {std::string(to_string(right[pair.b].status))}});
  print({table});
  return fine;
}

// If this machine is calibrated, prints how many rounds a change of the threshold's size needs.
void print_expected_rounds(Progress& progress, const AbSettings& settings, const std::vector<Cell>& cells) {
  const MachineRecord machine = environment();
  const auto fingerprint = machine_fingerprint(machine);
  std::error_code ignored;
  if (!fingerprint || !fs::exists(calibration_place(*fingerprint), ignored)) return;
  const InForce now = in_force(read_calibration(calibration_place(*fingerprint)), machine, utc_now());
  if (!now.calibration) return;
  std::vector<std::string> ids;
  for (const Cell& cell : cells) ids.push_back(cell.id);
  const LookPlan plan =
      plan_looks(settings.confidence, static_cast<int>(cells.size()), settings.looks, settings.rounds);
  const auto rounds = now.calibration->rounds_for(ids, settings.threshold, plan.confidence, settings.metric);
  progress.note(
      rounds ? fmt::format(
                   "the calibration of this machine predicts: about {} rounds detect a change of {:.3g} %",
                   *rounds, 200 * settings.threshold)
             : fmt::format(
                   "the calibration of this machine predicts: 1000 rounds do not detect a change of {:.3g} %",
                   200 * settings.threshold));
}

int measure(const AbOptions& options, const Context& context) {
  options.verdict.require_format();
  AbSettings settings;
  settings.threshold = options.verdict.threshold();
  settings.confidence = options.verdict.confidence();
  settings.metric = options.verdict.metric();
  settings.breakage = options.verdict.breakage();
  settings.looks = options.looks;
  settings.rounds = options.rounds;
  const AbSide side_a = parse_side(options.a, "--a"), side_b = parse_side(options.b, "--b");
  AbArm a = arm(options, side_a, context), b = arm(options, side_b, context);
  require_used_interpreters(a, side_a, "--a");
  require_used_interpreters(b, side_b, "--b");
  if (const double limit = duration_of(a.request.config.values, "max-time"); limit > 0)
    settings.max_seconds = limit;
  const auto free = differing(side_a, side_b, a.request.config);
  if (options.dry_run) return list_pairs(a, b, free);
  const fs::path folder = options.run.out.empty() ? default_folder() : fs::path(options.run.out);
  pair_cells(a.cells.cells, b.cells.cells, free);
  fs::create_directories(folder);
  a.request.out = folder / "a.json";
  b.request.out = folder / "b.json";
  Progress progress = Progress::on_stderr();
  print_expected_rounds(progress, settings, a.cells.cells);
  AbOutcome outcome = run_ab(a, b, free, settings, [] { return environment(); }, progress);
  outcome.comparison.notes.push_back(fmt::format(
      "a: {}; b: {}; both reports are in {}", side_a.text.empty() ? "the config unchanged" : side_a.text,
      side_b.text.empty() ? "the config unchanged" : side_b.text, folder.string()));
  const int code = exit_code(outcome);
  options.verdict.print(outcome.comparison, code);
  return code;
}

}  // namespace

void add_ab(CLI::App& app, Context& context) {
  auto options = std::make_shared<AbOptions>();
  CLI::App* command = app.add_subcommand(
      "ab", "Measure two builds, backends or settings side by side until it is clear which is slower");
  command
      ->add_option(
          "--a", options->a,
          "Changes of side A: NAME=VALUE with commas, for axes and cell settings, build=DIR for the "
          "backends of another build, and interpreter=FRAMEWORK=PATH for another version of a framework [the "
          "config unchanged]")
      ->type_name("SPEC");
  command->add_option("--b", options->b, "Changes of side B, which is compared with A")->type_name("SPEC");
  command
      ->add_option("--looks", options->looks,
                   "Maximum number of looks, each a decision from all rounds until then [5]")
      ->check(CLI::Range(1, 5));
  command
      ->add_option(
          "--rounds", options->rounds,
          "Round of the last look (default: 48 for one cell, 62 for twenty; each look is at 1.5 times the "
          "round of the one before)")
      ->check(CLI::Range(8, 10000));
  options->verdict.add(*command, context);
  command
      ->add_option("--out", options->run.out,
                   "Folder for the reports of both sides, a.json and b.json [reports/ab-TIME]")
      ->type_name("DIR");
  command->add_flag("--dry-run", options->dry_run, "List the pairs of cells and run nothing");
  options->run.add(*command, false);
  add_examples(*command,
               {"assay ab --workload mlp --backend onednn --a mode=eager --b mode=graph --max-time 5m"});
  command->callback(
      [options, &context] { context.action = [options, &context] { return measure(*options, context); }; });
}

}  // namespace assay::cli
