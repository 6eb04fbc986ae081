// The rows of the table of axes.
#include <algorithm>
#include <array>
#include <span>

#include "harness/report/axes.hpp"

namespace assay {
namespace {

constexpr std::array<std::string_view, 5> optimizers{"sgd", "rmsprop", "adam", "adamw", "lazy_adam"};
constexpr std::array<std::string_view, 2> gradients{"dense", "sparse"};
constexpr std::array<std::string_view, 6> initials{"workload", "own",   "keras",
                                                   "gluon",    "torch", "glorot_normal"};
constexpr std::array<std::string_view, 2> pixels{"scaled", "raw"};
constexpr std::array<std::string_view, 3> recomputations{"none", "mirror", "sqrt"};
constexpr std::array<std::string_view, 3> devices{"auto", "cpu", "cuda"};
constexpr std::array<std::string_view, 2> allocators{"default", "keep"};
// Without fp64, which only the oracle uses.
constexpr std::array precisions{to_string(PrecisionKind::fp32), to_string(PrecisionKind::tf32),
                                to_string(PrecisionKind::bf16)};

bool loads(const Axes& axes) { return axes.loader != LoaderKind::resident; }
bool trains(const Axes& axes) { return axes.task == Task::train; }

// `using enum` is inside, so that it does not affect other files of the same unity build.
std::deque<Axis> make_table() {
  using enum OptionType;
  using enum AppliesTo;
  using enum Identity;
  using enum TitlePart;
  constexpr OptionScope axis = OptionScope::axis;
  return {
      {.option = {"workload", axis, text, "NAME,...", "",
                  "The networks or ops to run (assay list workloads), or folders of imported networks"},
       .field = &Axes::workload,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work,
       .request = true},
      {.option = {"backend", axis, text, "NAME,...", "",
                  "Backends to run (default: all available that offer the task, except the oracle)"},
       .field = &Axes::backend,
       .identity = always,
       .id = "/{0}",
       .part = column,
       .compared = true,
       .request = true},
      {.option =
           {.name = "device",
            .scope = axis,
            .placeholder = "NAME,...",
            .default_value = "cpu",
            .help =
                "Device to run on: cpu, cuda, or auto: a GPU where a backend is set up for one; if it is not "
                "given, named backends run on one that they share",
            .choices = devices},
       .field = &Axes::device,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = machine,
       .compared = true,
       .request = true},
      {.option =
           {"mode", axis, text, "NAME,...", "",
            "Execution mode: eager, graph or the backend's own; all of them; or best: the fastest mode "
            "and layout of a search in paired rounds (default: the mode that the backend recommends, and "
            "next to other backends also the bare mode of a vendor's library)"},
       .field = &Axes::mode,
       .identity = always,
       .id = "/{0}",
       .part = column,
       .compared = true,
       .request = true},
      {.option =
           {"task", axis, text, "train|infer|decode", "",
            "train: a training step, for a single op forward and backward; infer: only the forward pass; "
            "decode: one token at a time with a key/value cache (default: train; for a single op train and "
            "infer)"},
       .field = &Axes::task,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work,
       .request = true},
      {.option = {"precision", axis, text, "NAME,...", "fp32",
                  "Numeric policy; cells with different policies are not compared", 0, 0, precisions},
       .field = &Axes::precision,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work,
       .request = true},
      {.option = {"layout", axis, text, "NAME,...", "native",
                  "Memory layout of activations, if a backend offers a choice"},
       .field = &Axes::layout,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = contestant,
       .compared = true,
       .request = true},
      {.option = {"batch", axis, integer, "N,...", "", "Samples in each step (default: the workload's own)",
                  1, 1 << 24},
       .applies = network,
       .field = &Axes::batch,
       .identity = always,
       .id = "/b{0}",
       .title = "b{0}",
       .part = work,
       .sweep = true,
       .request = true},
      {.option = {"dataset", axis, text, "NAME,...", "",
                  "Data set, or synthetic (default: the workload's own)"},
       .applies = network,
       .field = &Axes::dataset,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work},
      {.option =
           {"loader", axis, text, "KIND,...", "",
            "resident rotates a few batches in memory (only compute), harness loads each batch, native is the "
            "framework's own loader (default: resident for steps, harness for epochs)"},
       .applies = network,
       .field = &Axes::loader,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = setup},
      {.option = {"loader-workers", axis, integer, "N,...", "0",
                  "Threads that load batches, from the budgets of --threads and --loader-threads; 0: load in "
                  "the training thread",
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
            "Size of a single op: 4096, m1760n16k1760 (see assay list workloads; default: its sweep, with "
            "--quick the four cheapest of a longer list)"},
       .applies = op,
       .field = &Axes::size,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work,
       .sweep = true},
      {.option = {"cache", axis, text, "warm|cold", "",
                  "For a single op: warm uses the same operands in every step, cold uses sets that the "
                  "last-level cache cannot hold (default: warm)"},
       .applies = op,
       .field = &Axes::cache,
       .identity = always,
       .id = "/{0}",
       .title = "{0} cache",
       .part = operands},
      {.option = {"optimizer", axis, text, "NAME,...", "",
                  "sgd, rmsprop, adam, adamw (decoupled weight decay), or lazy_adam, which updates only the "
                  "touched rows of sparse gradients (default: the workload's own)",
                  0, 0, optimizers},
       .applies = network,
       .field = &Axes::optimizer,
       .identity = always,
       .id = "/{0}",
       .title = "{0}",
       .part = work},
      {.option =
           {"embedding-gradient", axis, text, "dense|sparse", "",
            "Gradients of embeddings: of the whole table, or of the rows that a batch touches (default: dense)",
            0, 0, gradients},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"threads", axis, integer, "N,...", "",
            "Thread budget of compute and loader together, in each rank (default: every core, less those of "
            "--loader-threads, divided by --ranks)",
            1, 4096},
       .field = &Axes::threads,
       .identity = always,
       .id = "/t{0}",
       .title = "t{0}",
       .part = machine},
      {.option = {"ranks", axis, integer, "N,...", "1",
                  "Worker processes that train one model together: each has its share of --batch, which is a "
                  "multiple of it, and --threads of its own",
                  1, 4096},
       .applies = network,
       .title = "{0} ranks",
       .part = machine},
      {.option =
           {"loader-threads", axis, integer, "N,...", "",
            "Additional threads of the loader next to --threads: up to N loader workers use no thread of the "
            "computation (default: none)",
            1, 1024},
       .applies = network,
       .depends_on = "loader",
       .matters = loads},
      {.option = {"learning-rate", axis, number, "X,...", "",
                  "Base rate of the schedule (default: the workload's own)", 0, 1e6},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"schedule", axis, text, "NAME,...", "",
            "Learning rate over the run: constant, step:81x0.1:121x0.01 (after that many epochs), "
            "every:10x0.9, cosine[:EPOCHS], decay:1e-6 (Keras's), each with or without a prefix warmup:EPOCHS+ "
            "(default: the workload's own)"},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"weight-decay", axis, number, "X,...", "",
            "L2 penalty in the gradient of kernels (not of biases and norms): g + X p, which is Keras's "
            "l2(X / 2); adamw subtracts X p times the learning rate instead (default: the workload's own)",
            0, 1e3},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option = {"epsilon", axis, number, "X,...", "",
                  "Epsilon of the optimizer (default: the workload's own)", 0, 1},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"norm-momentum", axis, number, "X,...", "",
            "Share of the old running statistics that batch norms keep in a step (default: the workload's own)",
            0, 1},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"initial", axis, text, "NAME,...", "",
            "Initial values: own (the defaults of each framework's layers, so that backends start differently), "
            "or for all backends those of keras, gluon or torch, or glorot_normal, also for biases (default: "
            "workload)",
            0, 0, initials},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"clip-norm", axis, number, "X,...", "",
            "Scales the gradients down so that the L2 norm of all of them together is at most X; 0: does not "
            "(default: the workload's own)",
            0, 1e5},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"recompute", axis, text, "none|mirror|sqrt,...", "none",
            "Activations that the backward pass computes again, so that they are not kept: mirror, those of "
            "cheap ops between products; sqrt, those within segments, about as many as the root of the "
            "number of ops",
            0, 0, recomputations},
       .applies = network,
       .depends_on = "task",
       .matters = trains,
       .title = "{1}={0}",
       .part = contestant,
       .compared = true,
       .request = true},
      {.option =
           {"memory-fraction", axis, number, "X,...", "",
            "Share of the device's memory that a framework may use; unsupported if nothing can enforce it",
            0.01, 1},
       .applies = network,
       .request = true},
      {.option = {"memory-cap", axis, number, "GIB,...", "",
                  "The same limit in GiB: makes a large device as small as that of a study", 0.1, 1e4},
       .applies = network},
      {.option =
           {"augmentation", axis, text, "NAME,...", "",
            "Random views of the training images, drawn into the epoch's plan: none, crop:4 (an offset of "
            "up to 4 pixels each way), flip (half are mirrored), crop:4+flip (default: the workload's "
            "own)"},
       .applies = network,
       .depends_on = "task",
       .matters = trains},
      {.option =
           {"pixels", axis, text, "scaled|raw", "",
            "Pixels of images: with the data set's normalisation, or raw, from 0 to 255 (default: scaled)", 0,
            0, pixels},
       .applies = network},
      {.option =
           {"running-accuracy", axis, flag, "true|false", "false",
            "The timed loop counts the accuracy of its own batches, as loops of users do that print it"},
       .applies = network,
       .depends_on = "task",
       .matters = trains,
       .request = true},
      {.option = {"image-size", axis, integer, "N,...", "",
                  "Pixels on each side of the images of synthetic sets and of JPEG folders (default: the "
                  "workload's own)",
                  1, 16384},
       .applies = network},
      {.option = {"sequence-length", axis, integer, "N,...", "",
                  "Tokens of a sequence, for networks that take sequences, from synthetic sets and text "
                  "(default: the workload's own)",
                  1, 1 << 20},
       .applies = network},
      {.option = {"classes", axis, integer, "N,...", "",
                  "Classes of synthetic sets (default: the workload's own)", 2,
                  static_cast<double>(max_classes)},
       .applies = network},
      {.option = {"samples", axis, integer, "N,...", "",
                  "Use only the first N samples of each split (default: all)", 1, 1e12},
       .applies = network},
      {.option =
           {"compile-cache", axis, text, "cold|warm", "cold",
            "cold: a framework's caches on disk start empty in each fork; warm: they are kept between forks"},
       .field = &Axes::compile_cache,
       .id = "/cache-{0}",
       .title = "{0}-cache",
       .part = contestant,
       .compared = true},
      {.option =
           {"allocator", axis, text, "default|keep,...", "default",
            "The C library's allocator. keep: memory that a step frees stays in the process; default: the "
            "library may return it to the system, and the next step waits until it has it again",
            0, 0, allocators},
       .title = "{1}={0}",
       .part = contestant,
       .compared = true},
      {.option = {"deterministic", axis, flag, "true|false", "false",
                  "Ask the backend for bit-identical results, if it has a choice"},
       .field = &Axes::deterministic,
       .id = "/{1}",
       .title = "{1}",
       .part = setup,
       .request = true},
      {.option = {"measure", axis, text, "", "",
                  "The unit that a fork times: steps, or epochs:N; set by --epochs, --steps and --blocks"},
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

// An axis of an enum accepts all of its words, unless its row lists some.
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
