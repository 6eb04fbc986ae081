// Runs a lowered graph on staged batches. Two ways: GraphExecutor plans and binds ahead of time,
// EagerExecutor goes op by op.
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

// How the inputs of a graph lie in a batch.
struct Packing {
  std::map<std::string, std::int64_t> offsets = {};  // of the first element of each (input_offsets())
  bool floats = false;                               // whole numbers stand as floats: a single op
};

// Used from one thread. The library and the store outlive it.
class Executor {
 public:
  Executor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store, bool profile,
           const Packing& packing);
  virtual ~Executor() = default;

  // A slot beside those of the caller.
  static constexpr std::int64_t spare_slot = -1;

  // Keeps a batch as `slot` in every format that a kernel reads. Labels may be null where the graph has none.
  void stage(std::int64_t slot, const HostBatch& batch);
  // Where the schedule lies: written before run().
  void set_schedule(double learning_rate, std::int64_t step);
  // What dropout draws by, from the next run on; 0: nothing is drawn, the masks in the store are kept. It
  // lies where the kernels read it, as the schedule does.
  void set_seed(std::uint64_t seed);
  // Enqueues one pass over a staged batch.
  virtual void run(std::int64_t slot) = 0;

  // A named result of the last run; synchronises.
  HostTensor output(const std::string& name);
  std::vector<std::string> output_names() const;
  bool has_output(const std::string& name) const { return lowered_.outputs.contains(name); }

  // Adds "staged" and what the kind of executor has.
  virtual std::map<std::string, std::int64_t> memory() const;
  std::vector<OperatorTime> operator_times() const { return times_; }

 protected:
  // Points the feeds of the slot into pointers_.
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
    std::int64_t offset = 0;  // of its first element in the batch
    Inlet inlet;
  };
  using Slot = std::vector<Storage>;  // by feed

  std::vector<Feed> feeds_;
  std::vector<Slot> slots_;              // the spare one first
  std::vector<int> schedule_;            // buffers of the schedule
  std::vector<int> seeds_;               // and of the seed
  std::vector<Storage> small_feeds_;     // of both
  std::vector<void*> inputs_, outputs_;  // of the step being bound
};

// Everything is planned, allocated and bound when it is made; a step is a flat list of kernels.
class GraphExecutor final : public Executor {
 public:
  GraphExecutor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store, bool profile,
                const Packing& packing = {});
  void run(std::int64_t slot) override;
  std::map<std::string, std::int64_t> memory() const override;

 private:
  void run_whole(std::int64_t slot);

  Storage arena_;
  std::vector<void*> scratch_;          // by step
  std::int64_t slot_ = spare_slot - 1;  // that is bound; none yet
  std::vector<std::size_t> readers_;    // steps that read the batch
  std::vector<Scheduled> scheduled_;
  std::vector<Kernel*> kernels_;
  bool has_run_ = false;  // what a library does on first use it has done
  std::map<std::int64_t, std::unique_ptr<Recording>> recordings_;  // by slot
};

// Each result is allocated when its op runs and freed after its last reader; each kernel is bound when it is
// called.
class EagerExecutor final : public Executor {
 public:
  EagerExecutor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store, bool profile,
                const Packing& packing = {});
  void run(std::int64_t slot) override;
  std::map<std::string, std::int64_t> memory() const override;

 private:
  std::vector<Storage> tensors_;                // by buffer; empty when dead
  std::vector<std::vector<std::size_t>> dead_;  // by step: buffers read for the last time
  std::int64_t live_ = 0, peak_ = 0;
};

}  // namespace assay
