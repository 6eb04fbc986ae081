// The rows of the table of axes.
#include <algorithm>
#include <array>
#include <span>

#include "harness/report/axes.hpp"

namespace assay {
namespace {

constexpr std::array<std::string_view, 4> optimizers{"sgd", "rmsprop", "adam", "lazy_adam"};
constexpr std::array<std::string_view, 2> gradients{"dense", "sparse"};
// Without fp64, which is the oracle's.
constexpr std::array precisions{to_string(PrecisionKind::fp32), to_string(PrecisionKind::tf32),
                                to_string(PrecisionKind::bf16)};

bool loads(const Axes& axes) { return axes.loader != LoaderKind::resident; }
bool trains(const Axes& axes) { return axes.task == Task::train; }

// `using enum` in here, so that it does not reach the files that this one is compiled with.
std::deque<Axis> make_table() {
  using enum OptionType;
  using enum AppliesTo;
  using enum Identity;
  using enum TitlePart;
  constexpr OptionScope axis = OptionScope::axis;
  return {
      {.option = {"workload", axis, text, "NAME,...", "",
                  "The networks or ops to run (assay list workloads)"},
       .field = &Axes::workload,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work,
       .request = true},
      {.option = {"backend", axis, text, "NAME,...", "",
                  "What executes them; without it every available backend but the oracle"},
       .field = &Axes::backend,
       .identity = always,
       .id = "/{0}",
       .part = hidden,
       .compared = true,
       .request = true},
      {.option = {"device", axis, text, "NAME,...", "cpu", "Where: cpu or cuda"},
       .field = &Axes::device,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = machine,
       .compared = true,
       .request = true},
      {.option =
           {"mode", axis, text, "NAME,...", "",
            "How a backend executes: eager, graph or its own; all of them; or best: the fastest mode and layout in "
            "a trial of one fork each (default: the mode that the backend recommends, and next to other backends "
            "also the bare mode of a vendor's library)"},
       .field = &Axes::mode,
       .identity = always,
       .id = "/{0}",
       .part = hidden,
       .compared = true,
       .request = true},
      {.option =
           {"task", axis, text, "train|infer", "",
            "A training step, or inference alone; of a single op forward and backward, or forward alone. "
            "train without it, and both for a single op"},
       .field = &Axes::task,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work,
       .request = true},
      {.option = {"precision", axis, text, "NAME,...", "fp32",
                  "Numeric policy; unlike policies are unlike cells and are not compared", 0, 0, precisions},
       .field = &Axes::precision,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work,
       .request = true},
      {.option = {"layout", axis, text, "NAME,...", "native",
                  "Memory layout of activations, where a backend offers a choice"},
       .field = &Axes::layout,
       .identity = always,
       .id = "/{0}",
       .part = hidden,
       .compared = true,
       .request = true},
      {.option = {"batch", axis, integer, "N,...", "", "Samples a step; the workload's own without it", 1,
                  1 << 24},
       .applies = network,
       .field = &Axes::batch,
       .identity = always,
       .id = "/b{0}",
       .title = "b{0}",
       .part = work,
       .sweep = true,
       .request = true},
      {.option = {"dataset", axis, text, "NAME,...", "",
                  "Data set, or synthetic; the workload's own without it"},
       .applies = network,
       .field = &Axes::dataset,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work},
      {.option =
           {"loader", axis, text, "KIND,...", "",
            "resident rotates a few batches in memory (pure compute), harness loads each batch, native is the "
            "framework's own; resident for steps and harness for epochs without it"},
       .applies = network,
       .field = &Axes::loader,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = setup},
      {.option =
           {"loader-workers", axis, integer, "N,...", "0",
            "Threads that load batches, out of the budgets of --threads and --loader-threads; 0 loads in the training "
            "thread",
            0, 1024},
       .applies = network,
       .depends_on = "loader",
       .matters = loads,
       .field = &Axes::loader_workers,
       .identity = always,
       .id = "-w{0}",
       .title = "w{0}",
       .part = setup},
      {.option =
           {"size", axis, text, "SIZE,...", "",
            "Of a single op: 4096, m1760n16k1760 (assay list workloads); its sweep without it; with --quick the "
            "four cheapest of a longer list"},
       .applies = op,
       .field = &Axes::size,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work,
       .sweep = true},
      {.option =
           {"cache", axis, text, "warm|cold", "",
            "Of a single op: the same operands in every step, or sets of them that the last-level cache cannot "
            "hold; warm without it"},
       .applies = op,
       .field = &Axes::cache,
       .identity = always,
       .id = "/{0}",
       .title = "{0} cache",
       .part = operands},
      {.option =
           {"optimizer", axis, text, "NAME,...", "",
            "sgd, rmsprop, adam, or lazy_adam, which updates the touched rows of sparse gradients alone; the "
            "workload's own without it",
            0, 0, optimizers},
       .applies = network,
       .field = &Axes::optimizer,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work},
      {.option =
           {"embedding-gradient", axis, text, "dense|sparse", "",
            "Gradients of embeddings: the whole table, or the rows that a batch touches; dense without it", 0,
            0, gradients},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"threads", axis, integer, "N,...", "",
            "Budget of compute and loader together; every core without it, less those of --loader-threads", 1,
            4096},
       .field = &Axes::threads,
       .identity = always,
       .id = "/t{0}",
       .title = "t{0}",
       .part = machine},
      {.option =
           {"loader-threads", axis, integer, "N,...", "",
            "A budget of the loader's own next to --threads: up to N loader workers take no thread from the "
            "computation; none without it",
            1, 1024},
       .applies = network,
       .depends_on = "loader",
       .matters = loads},
      {.option = {"learning-rate", axis, number, "X,...", "",
                  "Base rate of the schedule; the workload's own without it", 0, 1e6},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"schedule", axis, text, "NAME,...", "",
            "Learning rate over the run: constant, step:81x0.1:121x0.01 (once so many epochs are done), "
            "every:10x0.9, cosine[:EPOCHS], decay:1e-6 (Keras's), each with or without warmup:EPOCHS+ before "
            "it; the workload's own without it"},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"weight-decay", axis, number, "X,...", "",
            "L2 penalty in the gradient of kernels (not of biases and batch norm): g + X p, which is Keras's "
            "l2(X / 2); the workload's own without it",
            0, 1e3},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"memory-fraction", axis, number, "X,...", "",
            "Share of the device's memory that a framework may take; unsupported where nothing holds it to that",
            0.01, 1},
       .applies = network,
       .request = true},
      {.option = {"memory-cap", axis, number, "GIB,...", "",
                  "The same in GiB: makes a large device as small as a study's", 0.1, 1e4},
       .applies = network},
      {.option =
           {"augmentation", axis, text, "NAME,...", "",
            "Random views of the training images, drawn into the epoch's plan: none, crop:4 (an offset of up to 4 "
            "pixels each way), flip (half are mirrored), crop:4+flip; the workload's own without it"},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"image-size", axis, integer, "N,...", "",
            "Pixels a side of the images of synthetic sets and of JPEG folders; the workload's own without it",
            1, 16384},
       .applies = network},
      {.option = {"classes", axis, integer, "N,...", "",
                  "Classes of synthetic sets; the workload's own without it", 2, 1e6},
       .applies = network},
      {.option = {"samples", axis, integer, "N,...", "",
                  "Take only the first N samples of each split; all without it", 1, 1e12},
       .applies = network},
      {.option = {"compile-cache", axis, text, "cold|warm", "cold",
                  "Whether a framework's caches on disk start empty in each fork or are kept between forks"},
       .field = &Axes::compile_cache,
       .id = "/cache-{0}",
       .title = "cache-{0}",
       .part = setup},
      {.option = {"deterministic", axis, flag, "true|false", "false",
                  "Ask the backend for bit-identical results where it has a choice"},
       .field = &Axes::deterministic,
       .id = "/{1}",
       .title = "{1}",
       .part = setup,
       .request = true},
      {.option = {"measure", axis, text, "", "",
                  "What a fork times: steps, or epochs:N; from --epochs, --steps and --blocks"},
       .derived = "epochs,steps",
       .field = &Axes::measure,
       .identity = last,
       .id = "/{0}",
       .title = "{0}"},
  };
}

template <typename T>
std::span<const std::string_view> words_of(T Axes::*) {
  return {};
}
template <Worded E>
std::span<const std::string_view> words_of(E Axes::*) {
  return word_texts<E>;
}
template <Worded E>
std::span<const std::string_view> words_of(std::optional<E> Axes::*) {
  return word_texts<E>;
}
std::span<const std::string_view> words_of(std::monostate) { return {}; }

// An axis of an enum takes all of its words, unless its row says which.
std::deque<Axis> with_words(std::deque<Axis> rows) {
  for (Axis& axis : rows)
    if (axis.option.choices.empty())
      axis.option.choices = std::visit([](auto field) { return words_of(field); }, axis.field);
  return rows;
}

// The rows, and pointers to them in the order of the id.
struct Table {
  std::deque<Axis> rows = with_words(make_table());
  std::vector<const Axis*> order = sorted();

  std::vector<const Axis*> sorted() const {
    std::vector<const Axis*> pointers;
    for (const Axis& axis : rows) pointers.push_back(&axis);
    std::ranges::stable_sort(pointers, comes_before);
    return pointers;
  }
};

Table& table() {
  static Table made;
  return made;
}

}  // namespace

bool comes_before(const Axis* a, const Axis* b) {
  const auto rank = [](const Axis* axis) {
    if (axis->identity == Identity::last) return 3;
    if (axis->identity == Identity::always) return 0;
    return axis->has_field() ? 1 : 2;
  };
  return rank(a) != rank(b) ? rank(a) < rank(b) : rank(a) == 2 && a->name() < b->name();
}

const std::deque<Axis>& axis_table() { return table().rows; }
const std::vector<const Axis*>& axes_in_order() { return table().order; }

AddedAxis::AddedAxis(const Axis& axis) {
  table().rows.push_back(axis);
  table().order = table().sorted();
}
AddedAxis::~AddedAxis() {
  table().rows.pop_back();
  table().order = table().sorted();
}

}  // namespace assay
