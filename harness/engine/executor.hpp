// Runs a lowered graph on staged batches, in two ways: GraphExecutor plans and binds ahead of time,
// EagerExecutor runs one op after the other.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/engine/lowered_graph.hpp"
#include "harness/engine/persistent_store.hpp"
#include "harness/engine/transfer.hpp"
#include "harness/worker/backend.hpp"

namespace assay {

// The position of a graph's inputs in a batch.
struct Packing {
  std::map<std::string, PackedInput> inputs = {};  // packed_inputs()
  std::int64_t samples = 1;                        // rows of the batch
  bool floats = false;                             // packs_inputs()
};

// Used from one thread. The library and the store must outlive it.
class Executor {
 public:
  Executor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store, bool profile,
           const Packing& packing);
  virtual ~Executor() = default;

  // A slot in addition to those of the caller.
  static constexpr std::int64_t spare_slot = -1;

  // Keeps a batch as `slot` in every format that a kernel reads. Labels may be null if the graph has none.
  void stage(std::int64_t slot, const HostBatch& batch);
  // Writes the schedule into the memory that the kernels read. Call it before run().
  void set_schedule(double learning_rate, std::int64_t step);
  // Sets the seed of dropout masks, from the next run on; 0: no masks are drawn, those in the store are kept.
  // The kernels read the seed from memory, like the schedule.
  void set_seed(std::uint64_t seed);
  // The persistent values were written from outside.
  virtual void state_changed() {}
  // Enqueues one pass over a staged batch.
  virtual void run(std::int64_t slot) = 0;
  // As Executable::device_times().
  virtual DeviceTimes device_times() = 0;

  // A named result of the last run; synchronises.
  HostTensor output(const std::string& name);
  std::vector<std::string> output_names() const;
  bool has_output(const std::string& name) const { return lowered_.outputs.contains(name); }

  // Adds "staged" and the entries of the derived executor.
  virtual std::map<std::string, std::int64_t> memory() const;
  std::vector<OperatorTime> operator_times() const { return times_; }

 protected:
  bool is_staged(std::int64_t slot) const;
  // One more than the last slot that may be staged.
  std::int64_t end_of_slots() const { return spare_slot + static_cast<std::int64_t>(slots_.size()); }
  // Sets the pointers_ of the slot's feeds.
  void point_at(std::int64_t slot);
  void bind(LoweredStep& step, void* scratch);

  LoweredGraph lowered_;
  KernelLibrary& library_;
  bool profile_;
  std::vector<void*> pointers_;      // by buffer
  std::vector<OperatorTime> times_;  // by step; empty without profile

 private:
  struct Feed {
    int buffer = none;
    bool label = false;
    PackedInput input = {};  // where it is in a sample
    Inlet inlet;
  };
  using Slot = std::vector<Storage>;  // by feed

  // The batch of an input among those of the others, in host memory until the next call.
  const void* rows_of(const Feed& feed, const void* inputs);

  std::int64_t samples_, sample_elements_ = 0;  // of a batch, and of all inputs of a sample
  std::vector<float> gathered_;                 // by rows_of()
  std::vector<Feed> feeds_;
  std::vector<Slot> slots_;              // the spare one first
  std::vector<int> schedule_;            // buffers of the schedule
  std::vector<int> seeds_;               // buffers of the seed
  std::vector<Storage> small_feeds_;     // storage of both
  std::vector<void*> inputs_, outputs_;  // of the step that is being bound
};

// The constructor plans, allocates and binds everything; a step runs a flat list of kernels.
class GraphExecutor final : public Executor {
 public:
  // frozen: nothing else writes the persistent values without a call of state_changed(). Then, if the library
  // keeps constants, what depends only on them is computed in the first run after such a call.
  GraphExecutor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store, bool profile,
                const Packing& packing = {}, bool frozen = false);
  void state_changed() override { stale_ = true; }
  void run(std::int64_t slot) override;
  DeviceTimes device_times() override;
  std::map<std::string, std::int64_t> memory() const override;

 private:
  void run_whole(std::int64_t slot);
  void record_staged(std::int64_t slot);
  void bind_readers(std::int64_t slot);
  Touched touched_by(const LoweredStep& step, const void* scratch) const;

  Storage arena_;
  std::vector<Storage> constants_;      // what the steps of prologue_ make
  std::vector<Kernel*> prologue_;       // run once for each state
  bool stale_ = true;                   // prologue_ has not seen the state
  std::vector<void*> scratch_;          // by step
  std::int64_t slot_ = spare_slot - 1;  // the bound slot; none yet
  std::vector<std::size_t> readers_;    // steps that read the batch
  std::vector<Scheduled> scheduled_;
  std::vector<Kernel*> kernels_;
  Needs needs_;           // of kernels_; found when they are recorded
  bool has_run_ = false;  // the library has done its first-use work
  bool records_ = true;   // until the library does not
  std::map<std::int64_t, std::unique_ptr<Recording>> recordings_;  // by slot
};

// Allocates each result when its op runs and frees it after its last reader; binds each kernel when it is
// called.
class EagerExecutor final : public Executor {
 public:
  EagerExecutor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store, bool profile,
                const Packing& packing = {});
  void run(std::int64_t slot) override;
  DeviceTimes device_times() override;
  std::map<std::string, std::int64_t> memory() const override;

 private:
  std::vector<Storage> tensors_;                // by buffer; empty when dead
  std::vector<std::vector<std::size_t>> dead_;  // by step: buffers read for the last time
  std::int64_t live_ = 0, peak_ = 0;
};

}  // namespace assay
