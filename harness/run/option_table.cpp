#include <array>

#include "harness/run/options.hpp"

namespace assay {
namespace {

using enum OptionScope;
using enum OptionType;

constexpr std::string_view tasks[] = {"train", "infer"};
constexpr std::string_view loaders[] = {"resident", "harness", "native"};
constexpr std::string_view optimizers[] = {"sgd", "rmsprop", "adam", "lazy_adam"};
constexpr std::string_view gradients[] = {"dense", "sparse"};
constexpr std::string_view caches[] = {"cold", "warm"};
constexpr std::string_view rooflines[] = {"auto", "true", "false"};
constexpr std::string_view operand_caches[] = {"warm", "cold"};
constexpr std::string_view precisions[] = {"fp32", "tf32", "bf16"};

constexpr std::array table = {
    Option{"workload", axis, text, "NAME,...", "", "The networks or ops to run (assay list workloads)"},
    Option{"backend", axis, text, "NAME,...", "",
           "What executes them; without it every available backend but the oracle"},
    Option{"device", axis, text, "NAME,...", "cpu", "Where: cpu or cuda"},
    Option{"mode", axis, text, "NAME,...", "",
           "How a backend executes: eager, graph or its own; without it each mode that the backend has"},
    Option{"task", axis, text, "train|infer", "",
           "A training step, or inference alone; of a single op forward and backward, or forward alone. "
           "train without it, "
           "and both for a single op",
           0, 0, tasks},
    Option{"precision", axis, text, "NAME,...", "fp32",
           "Numeric policy; unlike policies are unlike cells and are not compared", 0, 0, precisions},
    Option{"layout", axis, text, "NAME,...", "native",
           "Memory layout of activations, where a backend offers a choice"},
    Option{"batch", axis, integer, "N,...", "", "Samples a step; the workload's own without it", 1, 1 << 24},
    Option{"dataset", axis, text, "NAME,...", "", "Data set, or synthetic; the workload's own without it"},
    Option{"loader", axis, text, "KIND,...", "",
           "resident rotates a few batches in memory (pure compute), harness loads each batch, native is the "
           "framework's own; "
           "resident for steps and harness for epochs without it",
           0, 0, loaders},
    Option{"loader-workers", axis, integer, "N,...", "0",
           "Threads that load batches, out of the budget of --threads; 0 loads in the training thread", 0,
           1024},
    Option{"size", axis, text, "SIZE,...", "",
           "Of a single op: 4096, m1760n16k1760 (assay list workloads); its sweep without it; with "
           "--quick the four cheapest of a longer list"},
    Option{"cache", axis, text, "warm|cold", "",
           "Of a single op: the same operands in every step, or sets of them that the last-level cache "
           "cannot hold; "
           "warm without it",
           0, 0, operand_caches},
    Option{"optimizer", axis, text, "NAME,...", "",
           "sgd, rmsprop, adam, or lazy_adam, which updates the touched rows of sparse gradients alone; the "
           "workload's own without it",
           0, 0, optimizers},
    Option{"embedding-gradient", axis, text, "dense|sparse", "",
           "Gradients of embeddings: the whole table, or the rows that a batch touches; dense without it", 0,
           0, gradients, false, true},
    Option{"threads", axis, integer, "N,...", "",
           "Budget of compute and loader together; every core without it", 1, 4096},
    Option{"learning-rate",
           axis,
           number,
           "X,...",
           "",
           "Base rate of the schedule; the workload's own without it",
           0,
           1e6,
           {},
           false,
           true},
    Option{"schedule",
           axis,
           text,
           "NAME,...",
           "",
           "Learning rate over the run: constant, step:81x0.1:121x0.01 (once so many epochs are done), "
           "every:10x0.9, cosine[:EPOCHS], decay:1e-6 (Keras's), each with or without warmup:EPOCHS+ before "
           "it; the workload's own without it",
           0,
           0,
           {},
           false,
           true},
    Option{"weight-decay",
           axis,
           number,
           "X,...",
           "",
           "L2 penalty in the gradient of kernels (not of biases and batch norm): g + X p, which is Keras's "
           "l2(X / 2); the workload's own without it",
           0,
           1e3,
           {},
           false,
           true},
    Option{
        "memory-fraction",
        axis,
        number,
        "X,...",
        "",
        "Share of the device's memory that a framework may take; unsupported where nothing holds it to that",
        0.01,
        1,
        {},
        false,
        true},
    Option{"memory-cap",
           axis,
           number,
           "GIB,...",
           "",
           "The same in GiB: makes a large device as small as a study's",
           0.1,
           1e4,
           {},
           false,
           true},
    Option{"augmentation",
           axis,
           text,
           "NAME,...",
           "",
           "Random views of the training images, drawn into the epoch's plan: none, crop:4 (an offset of up "
           "to 4 "
           "pixels each way), flip (half are mirrored), crop:4+flip; the workload's own without it",
           0,
           0,
           {},
           false,
           true},
    Option{"samples",
           axis,
           integer,
           "N,...",
           "",
           "Take only the first N samples of each split; all without it",
           1,
           1e12,
           {},
           false,
           true},
    Option{"compile-cache", axis, text, "cold|warm", "cold",
           "Whether a framework's caches on disk start empty in each fork or are kept between forks", 0, 0,
           caches},
    Option{"deterministic", axis, flag, "true|false", "false",
           "Ask the backend for bit-identical results where it has a choice"},

    Option{"epochs", cell, integer, "N", "", "Time N epochs from a cold start, evaluating after each", 1,
           1e6},
    Option{"steps", cell, integer, "N", "", "Time N steps in all instead of --blocks blocks sized by time", 1,
           1e9},
    Option{"blocks", cell, integer, "N", "10", "Timed blocks of a steps fork", 1, 1e6},
    Option{"block-seconds", cell, number, "S", "0.1",
           "Length of a block: long against the clock, short against disturbances", 1e-4, 3600},
    Option{"warm-up-steps", cell, integer, "N", "10", "Untimed steps at the least before the first block", 0,
           1e6},
    Option{"warm-up-seconds", cell, number, "S", "0.5", "Untimed seconds at the least before the first block",
           0, 3600},
    Option{"resident-batches", cell, integer, "N", "8",
           "Batches that the resident loader rotates, so that no input stays in cache", 1, 4096},
    Option{"check", cell, flag, "true|false", "true",
           "Compare with the oracle before timing and after; without it no cell is ranked"},
    Option{"distinct", cell, integer, "N", "8",
           "Distinct samples in the check's batch: what the oracle pays for", 1, 4096},

    Option{"forks", run, integer, "N", "3",
           "Fresh executions of each cell; intervals need six; 0 executes nothing and tells the memory plans",
           0, 10000},
    Option{"seed", run, integer, "N", "1",
           "Round r draws parameters and sample order from seed N + r, the same for all backends", 0, 9e15},
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

std::span<const Option> options() { return table; }

}  // namespace assay
