// The settings: how a cell is measured, and what holds for the whole run. The axes have a table of their own
// (harness/report/axis_table.cpp).
#include <array>

#include "harness/conductor/config/options.hpp"
#include "harness/report/axes.hpp"

namespace assay {
namespace {

using enum OptionScope;
using enum OptionType;

constexpr std::string_view rooflines[] = {"auto", "true", "false"};
constexpr std::string_view untils[] = {"forks", "clear"};
constexpr std::string_view fork_styles[] = {"fresh", "resident"};

constexpr std::array settings = {
    Option{"epochs", cell, integer, "N", "", "Time N epochs from a cold start, evaluating after each", 1,
           1e6},
    Option{"steps", cell, integer, "N", "", "Time N steps in all instead of --blocks blocks sized by time", 1,
           1e9},
    Option{"blocks", cell, integer, "N", "10", "Timed blocks of a steps fork", 1, 1e6},
    Option{"block-seconds", cell, number, "S", "0.1",
           "Length of a block: long against the clock, short against disturbances", 1e-4, 3600},
    Option{"warm-up-steps", cell, integer, "N", "10", "Untimed steps before the first block, at least", 0,
           1e6},
    Option{"warm-up-seconds", cell, number, "S", "0.5", "Untimed seconds before the first block, at least", 0,
           3600},
    Option{"resident-batches", cell, integer, "N", "8",
           "Batches that the resident loader rotates, so that no input stays in cache", 1, 4096},
    Option{"check", cell, flag, "true|false", "true",
           "Compare what was timed with the oracle; without it no cell is ranked"},
    Option{"distinct", cell, integer, "N", "4",
           "Distinct samples in a batch of the exam: what the oracle pays for", 1, 4096},

    Option{"forks", run, integer, "N", "6",
           "Fresh executions of each cell; intervals need six; 0 executes nothing and tells the memory plans",
           0, 10000},
    Option{
        "spare-rounds", run, integer, "N", "",
        "More rounds to replace those in which other processes used the processors: such a round counts for "
        "no cell; a third of --forks without it",
        0, 1000},
    Option{
        "until", run, text, "forks|clear", "forks",
        "clear: add rounds until the order of the cells is clear, their ratio being clear of 1 or within 2 % of "
        "it, or --max-time has passed; --forks is not used then",
        0, 0, untils},
    Option{
        "fork-style", run, text, "fresh|resident", "fresh",
        "resident: the process of a cell's first fork stays for the later ones, which saves their start and their "
        "compiling, and hides what differs from process to process",
        0, 0, fork_styles},
    Option{"max-time", run, text, "TIME", "",
           "No round begins later than this: 90s, 30m or 2h; no limit without it (30m for ab)"},
    Option{"seed", run, integer, "N", "1",
           "Round r draws parameters and sample order from seed N + r, the same for all backends", 0, 9e15},
    Option{
        "seed-per-round", run, flag, "true|false", "true",
        "false: every round has seed N, so that forks of a cell differ only in what the machine and the backend "
        "make of it (metric distinct_final_states)"},
    Option{"time-limit", run, number, "S", "600",
           "Seconds that one phase of a fork (compile, check, run) may take", 0.1, 1e7},
    Option{"quick", run, flag, "true|false", "false",
           "One fork, few short blocks, one epoch: to see that it works, not to measure"},
    Option{"profile", run, flag, "true|false", "false",
           "Also time each operator; slows the steps, so such cells are not ranked"},
    Option{"roofline", run, text, "auto|true|false", "auto",
           "Also measure this machine's peak and copy bandwidth, beside which the rates of cells stand; "
           "auto: where "
           "there are single ops, and not with --quick",
           0, 0, rooflines},
    Option{"interpreter",
           run,
           text,
           "NAME=PATH",
           "",
           "Python of a framework instead of its own environment's",
           0,
           0,
           {},
           true},
    Option{"data",
           run,
           text,
           "DIR",
           "",
           "Folder with data sets, each in DIR/<name>/; before $ASSAY_DATA and the system's places",
           0,
           0,
           {},
           true},
};

}  // namespace

std::vector<std::reference_wrapper<const Option>> options() {
  std::vector<std::reference_wrapper<const Option>> all;
  for (const Axis& axis : axis_table())
    if (axis.derived.empty()) all.emplace_back(axis.option);
  all.insert(all.end(), settings.begin(), settings.end());
  return all;
}

const Option* find_option(std::string_view name) {
  if (const Axis* axis = find_axis(name)) return axis->derived.empty() ? &axis->option : nullptr;
  for (const Option& option : settings)
    if (option.name == name) return &option;
  return nullptr;
}

}  // namespace assay
