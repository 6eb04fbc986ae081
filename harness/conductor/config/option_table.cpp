// The settings: how a cell is measured, and the settings of the whole run. The axes have their own table
// (harness/report/axis_table.cpp).
#include <array>

#include "harness/conductor/config/options.hpp"
#include "harness/core/launcher.hpp"
#include "harness/report/axes.hpp"

namespace assay {
namespace {

using enum OptionScope;
using enum OptionType;

constexpr std::string_view rooflines[] = {"auto", "true", "false"};
constexpr std::string_view untils[] = {"forks", "clear"};
constexpr std::string_view fork_styles[] = {"fresh", "resident"};
constexpr std::string_view scalings[] = {"strong", "weak"};
constexpr auto launchers = word_texts<Launcher>;
constexpr std::string_view examined_forks[] = {"some", "all"};

constexpr std::array settings = {
    Option{"epochs", cell, integer, "N", "", "Time N epochs from a cold start, evaluating after each", 1,
           1e5},
    Option{"steps", cell, integer, "N", "", "Time N steps in total instead of --blocks blocks sized by time",
           1, 1e7},
    Option{"blocks", cell, integer, "N", "10", "Timed blocks of a steps fork", 1, 1e5},
    Option{"block-seconds", cell, number, "S", "0.1",
           "Length of a block: much longer than a clock tick, short enough to avoid disturbances", 1e-4,
           3600},
    Option{"warm-up-steps", cell, integer, "N", "10",
           "Minimum number of untimed steps before the first block", 1, 1e6},
    Option{"warm-up-seconds", cell, number, "S", "0.5", "Minimum untimed seconds before the first block", 0,
           3600},
    Option{"resident-batches", cell, integer, "N", "8",
           "Batches that the resident loader rotates; those of a small network still fit into a cache", 1,
           4096},
    Option{"scaling", cell, text, "strong|weak", "strong",
           "With --ranks: strong, the ranks share --batch; weak, each of them has --batch samples", 0, 0,
           scalings},
    Option{
        "launcher", cell, text, "fork|mpirun|srun|torchrun", "",
        "With --ranks: what starts them, on this machine or on several; fork is this program itself, on this machine "
        "(default: that of the backend, fork for most)",
        0, 0, launchers},
    Option{"launcher-arguments", cell, text, "TEXT", "",
           "Further arguments of the launcher, separated by blanks, such as --mpi=pmix"},
    Option{
        "launcher-prefix", cell, text, "TEXT", "",
        "What starts the launcher, separated by blanks, such as srun --ntasks-per-node=1 for one torchrun on each "
        "machine"},
    Option{
        "rendezvous", cell, text, "ADDRESS", "",
        "With --ranks: the IPv4 address of rank 0, where they meet; the program chooses the port (default: 127.0.0.1, or "
        "with several machines the address at which this one sees that of rank 0)"},
    Option{"check", cell, flag, "true|false", "true",
           "Compare the timed program with the oracle; cells are ranked only if checked"},
    Option{"distinct", cell, integer, "N", "4",
           "Distinct samples in a batch of the exam; more make the oracle slower", 1, 4096},

    Option{
        "forks", run, integer, "N", "6",
        "Fresh executions of each cell; intervals need at least 6; 0 runs nothing and reports the memory plans",
        0, 10000},
    Option{
        "spare-rounds", run, integer, "N", "",
        "At most this many more rounds, to replace those that do not count for a pair of cells because the machine was "
        "disturbed (default: as many as --forks; none for one or two)",
        0, 1000},
    Option{
        "until", run, text, "forks|clear", "forks",
        "clear: add rounds until the order of the cells is clear (each ratio of two cells is clearly different from 1 or "
        "within 2 % of 1), 25 rounds count, too few rounds count, or --max-time has passed; ignores --forks",
        0, 0, untils},
    Option{"fork-style", run, text, "fresh|resident", "fresh",
           "resident: one process runs all forks of a cell, which saves starting and compiling but hides the "
           "variation between processes",
           0, 0, fork_styles},
    Option{"exams", run, integer, "N", "2",
           "Sets of exam questions that the rounds alternate between; the oracle answers each once", 1, 1000},
    Option{"examine", run, text, "some|all", "some",
           "all: examine each later fork of a resident process too, not a third of them", 0, 0,
           examined_forks},
    Option{
        "max-time", run, text, "TIME", "",
        "End the run within this time, checks included: 90s, 30m or 2h. No round begins that cannot end in it (default: "
        "no limit; 30m for ab)"},
    Option{"seed", run, integer, "N", "1",
           "Round r draws parameters and sample order from seed N + r, the same for all backends", 0, 9e15},
    Option{
        "seed-per-round", run, flag, "true|false", "true",
        "false: every round has seed N, so that forks of a cell differ only because of the machine and the backend "
        "(metric distinct_final_states)"},
    Option{"time-limit", run, number, "S", "600",
           "Maximum time of one phase of a fork (compile, check, run): seconds, or 10m, 2h", 0.1, 1e7},
    Option{"quick", run, flag, "true|false", "false",
           "One fork, few short blocks, one epoch: a test that it works, not a measurement"},
    Option{"profile", run, flag, "true|false", "false",
           "Also time each operator; slows the steps, so such cells are not ranked"},
    Option{
        "roofline", run, text, "auto|true|false", "auto",
        "Also measure this machine's peak and copy bandwidth, to show next to the rates of cells; auto: only for "
        "single ops, and not with --quick",
        0, 0, rooflines},
    Option{"interpreter",
           run,
           text,
           "NAME=PATH",
           "",
           "Python for a framework, instead of the one of its environment",
           0,
           0,
           {},
           true},
    Option{"environment",
           run,
           text,
           "NAME=VALUE",
           "",
           "Variable for the workers; of the caller's they get only those that name places and the language",
           0,
           0,
           {},
           true},
    Option{"weights", run, text, "FILE", "",
           "Weights for minilm, bert-base or an imported network, a safetensors file, instead of others"},
    Option{
        "data",
        run,
        text,
        "DIR",
        "",
        "Folder with data sets, each in DIR/NAME/, or a text file for the data set text, or the samples and the labels of the "
        "data set npy (--inputs and --labels); searched before "
        "$ASSAY_DATA and the system's folders",
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
