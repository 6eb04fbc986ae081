// The contract of a C++ backend: it gets a whole program and returns an executable. backends/<name>/main.cpp
// passes a backend to worker_main().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/core/error.hpp"
#include "harness/core/tensor.hpp"
#include "harness/graph/passes/all_reduce.hpp"
#include "harness/graph/passes/precision.hpp"
#include "harness/graph/program.hpp"
#include "harness/protocol/message.hpp"

namespace assay {

// The backend cannot do something, as opposed to a failure. The status `unsupported`: "[convolution] stride 3
// has no kernel here".
class Unsupported : public Error {
 public:
  using Error::Error;
};

// The status `unavailable`: a device or library that the backend needs is missing here.
class Unavailable : public Error {
 public:
  using Error::Error;
};

// The status `out_of_memory`: the text names the requested memory. std::bad_alloc means the same.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string reason) : reason_(std::move(reason)) {}
  const char* what() const noexcept override { return reason_.c_str(); }

 private:
  std::string reason_;
};

using protocol::Library;
using protocol::OperatorTime;

struct BackendInfo {
  std::string name;
  std::string version;
  std::vector<Library> libraries;
  std::map<std::string, std::string> settings;  // observed: threads, instruction set, math mode
};

struct CompileOptions {
  Task task = Task::train;
  std::string mode;  // one of the backend's own
  DeviceKind device = DeviceKind::cpu;
  std::string layout = "native";
  Precision precision;
  int threads = 1;
  std::uint64_t seed = 1;       // of the program's own random numbers: dropout masks
  bool deterministic = false;   // the same state gives the same bits in each run
  double memory_fraction = 0;   // share of the device's memory that it may use; 0: no limit
  std::int64_t memory_cap = 0;  // the same limit in bytes
  bool gradients = false;       // for the oracle: gradients() will be called
  bool profile = false;         // operator_times() will be called
  int rank = 0, world = 1;      // its place among the workers that train one model together
  BucketLimits buckets = {};    // of the gradients that these exchange
};

// One batch in host memory. inputs: f32 (B, ...), or i32 if the program's input is tokens; labels: i32 (B), or
// (B, T) if every position has a label; may be null if nothing is trained. If the program packs its inputs
// (packs_inputs()), each sample has all of them, one after the other, in f32: an i32 input is stored as floats with
// whole values. A single op is one sample.
struct HostBatch {
  const void* inputs = nullptr;
  const std::int32_t* labels = nullptr;
};

// The exchange of gradients between ranks. Only between steps, and all ranks make the same calls in the same order.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  // Of the gradients that this rank gives to it in a step.
  virtual std::int64_t bytes() const = 0;
  // Whether later steps exchange their gradients (at first they do). Otherwise each rank updates with its own.
  virtual void set_enabled(bool enabled) = 0;
  // Exchanges as many bytes, in the same parts; returns when they are there.
  virtual void run() = 0;
};

// Of many steps on the device alone, handed over at once.
struct DeviceTimes {
  std::int64_t steps = 0;                 // in one run
  std::vector<double> step_seconds = {};  // by the device's clock, the mean over a run; one for each run
};

// One compiled program with its memory and its state. Used from one thread. Errors are exceptions:
// OutOfMemory, Unsupported, std::runtime_error for all others. A runtime that only infers writes what is pure; a backend
// that trains also state(), loss() and evaluate().
class Executable {
 public:
  virtual ~Executable() = default;

  // Sets parameters, running statistics and moments by name; all others restart from their initial value
  // (moments zero, running mean 0, running variance 1).
  virtual void set_state(std::span<const HostTensor> tensors) = 0;
  // Parameters, running statistics and moments ("<parameter>.<moment>") in the contract's layout, f32 (f64
  // under fp64). A single op has only running statistics.
  virtual std::vector<HostTensor> state() { return {}; }

  // Keeps a batch as number `slot` in any layout that the executable reads. Slots are small and dense.
  virtual void stage(std::int64_t slot, const HostBatch& batch) = 0;
  // Enqueues one training step (task train: forward, loss, backward, update), one inference (task infer) or one
  // generation (task decode: prefill(), and next_token() for each of Program::generated()) on that batch.
  // step: 1 for the first. May return before the work is done.
  virtual void step(std::int64_t slot, double learning_rate, std::int64_t step) = 0;
  // Task decode, on the samples of a staged batch. prefill() begins again at the first token: it computes the
  // prompt and fills the caches, and no earlier token is seen any more. next_token() computes the next token of
  // each sample, which is in the batch. Both enqueue, and leave "logits" (B, 1, classes) as results.
  virtual void prefill(std::int64_t) { throw std::logic_error("[decode] this backend generates no tokens"); }
  virtual void next_token(std::int64_t) {
    throw std::logic_error("[decode] this backend generates no tokens");
  }
  // Returns when every enqueued step is done and all updated state is complete.
  virtual void synchronize() = 0;
  // Mean loss of the last step. Synchronises.
  virtual double loss() { throw Unsupported("[train] this backend only infers; use --task infer"); }
  // The results of the last step, f32 (f64 under fp64). By the names of the graph's outputs: of a network
  // in task infer or decode, and of a single op, for task train with "gradient/<input>" for each of
  // differentiated_inputs(). Synchronises.
  virtual std::vector<HostTensor> results() = 0;
  // Inference-mode logits f32 (B, classes), or (B, T, classes), of a batch with the current state; does not
  // change state.
  virtual void evaluate(const HostBatch&, float*) {
    throw Unsupported("[train] this backend only infers; use --task infer");
  }

  // Dropout: from the next step on each mask of the program (role mask) is the u8 tensor of its name, 1 kept
  // and 0 dropped, instead of one that the program draws; empty: it draws masks again. Does not compile
  // again. set_state() does not change masks.
  virtual void supply_masks(std::span<const HostTensor> masks) {
    if (!masks.empty()) throw std::logic_error("[dropout] this backend takes no masks");
  }
  // The masks of the last step, u8, by name. Synchronises. Not for the timed path.
  virtual std::vector<HostTensor> masks() { return {}; }

  // Training-mode "logits", "loss" and "gradient/<parameter>" of a batch; updates the running statistics and
  // nothing else. Called only for the oracle, compiled with options.gradients.
  virtual std::vector<HostTensor> gradients(const HostBatch&) {
    throw std::logic_error("[gradients] this backend is not an oracle");
  }

  // With several ranks: rank 0's value, once all ranks have called this. Never within a timed block. Values are 0 or
  // more.
  virtual std::int64_t agree(std::int64_t value) { return value; }
  // Null if there is one rank, or if the exchange cannot be left out of a step.
  virtual GradientExchange* gradient_exchange() { return nullptr; }

  // Of a single op, after its timed steps: what they take without the host's launches, over the staged operands in turn.
  // Leaves other results. Throws Unsupported, and the exceptions of a step.
  virtual DeviceTimes device_times() {
    throw Unsupported("[time_device] this backend does not time its device by itself");
  }

  // Bytes by name: "planned_arena", "persistent", ...
  virtual std::map<std::string, std::int64_t> memory() const { return {}; }
  virtual std::vector<OperatorTime> operator_times() const { return {}; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendInfo info() const = 0;
  // Whether several of its workers can train one model together: each step then trains with the means of the
  // gradients over the ranks, and Executable::agree() is implemented.
  virtual bool has_ranks() const { return false; }
  // Empty if compile() will work; otherwise the reason for the status `unsupported`.
  virtual std::string unsupported(const Program& program, const CompileOptions& options) const = 0;
  virtual std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) = 0;
};

// The complete main() of a C++ worker: runs the protocol on descriptors 3 and 4 for the cell folder argv[1].
int worker_main(int argc, char** argv, Backend& backend);

}  // namespace assay
