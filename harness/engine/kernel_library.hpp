// The interface of a kernel backend for the shared executor: formats, kernels, reorders, fusions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/engine/needs.hpp"
#include "harness/graph/graph.hpp"
#include "harness/graph/memory_plan/placement.hpp"
#include "harness/graph/op.hpp"

namespace assay {

// Two formats are the same layout iff their keys are equal. Cheap to copy.
struct Format {
  std::string key;                     // "plain f32 (32, 784)", "AB16b64a f32 (128, 784)"; empty: undecided
  std::int64_t bytes = 0;              // of the storage, with padding; need not be a multiple of anything
  std::shared_ptr<const void> detail;  // the library's own descriptor, may be null

  bool decided() const { return !key.empty(); }
  bool operator==(const Format& other) const { return key == other.key; }
};

// Used from one thread; it may use its own threads internally. run() neither allocates nor synchronises.
class Kernel {
 public:
  virtual ~Kernel() = default;

  // Sets the pointers of the operands: one for each operand and each result of the node, null if it is
  // absent. Every pointer has the memory's alignment(). `scratch` has the bytes that the lowering requested and
  // keeps nothing between runs. Called once in graph mode (again for kernels that read the batch, when the slot
  // changes), and before every run in eager mode: so it must be cheap, a few stores. Results may overlap
  // operands if Lowered::in_place says so.
  virtual void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) = 0;

  // The library's implementation, for profiles: "brgconv:avx512_core". May be empty.
  virtual std::string_view implementation() const { return {}; }

  // Reads the operands and writes every byte of the results that a reader may read.
  virtual void run() = 0;
};

class GradientExchange;
class Memory;

// The known formats when a node is lowered. One entry for each operand and result of the node.
struct Offer {
  // The current format of the value, or the one that an earlier user requested. Undecided: the library may
  // choose.
  std::vector<Format> inputs;
  // The format that the readers prefer (a gradient: its parameter's format; a new parameter: the parameter's
  // own). Undecided: the library may choose.
  std::vector<Format> outputs;
  // Eager mode: every operand and result is plain, and the lowering must accept that.
  bool plain = false;
};

struct Lowered {
  std::unique_ptr<Kernel> kernel;
  // One entry for each operand and result, undecided if it is absent. If a format differs from that of the
  // value, the executor adds a reorder (once for each value and format). An opaque value is never reordered;
  // its producer sets its bytes here.
  std::vector<Format> inputs;
  std::vector<Format> outputs;
  std::int64_t scratch_bytes = 0;
  std::vector<InPlace> in_place;  // those of in_place(node) that this kernel allows, in these formats
  // Result 0 has the bytes of operand 0 from first_byte on (flatten, slice): it needs no kernel and moves no data.
  bool view = false;
  std::int64_t first_byte = 0;
  // Opaque operands that the kernel overwrites while it reads them: nothing may read them after it.
  std::vector<std::size_t> overwritten = {};
  // Kernels with the same address here never run side by side, for instance because each of them waits inside for all of
  // its threads to be on the device. Null: the kernel may run beside every other one.
  const void* alone = nullptr;
};

// A kernel of the flat list of graph mode, and its node (for a reorder: the node that needs it).
struct Scheduled {
  Kernel* kernel = nullptr;
  std::string node;
  std::string op;
  Touched touched = {};  // but for what is staged, which no kernel writes
};

// A list that was run once, recorded with the pointers that its kernels had then.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void run() = 0;
  // Runs it twice and returns the seconds of the second one by the device's clock: its launch is hidden behind the first.
  // Throws Unsupported.
  virtual double seconds();
};

// Made for one CompileOptions (threads, precision, mode). Used from one thread. Outlives its kernels.
class KernelLibrary {
 public:
  virtual ~KernelLibrary() = default;

  // The first pass of graph mode: rewrites the graph with the fused ops of this library. Keeps inputs,
  // outputs and updates.
  virtual Graph fuse(Graph graph) const { return graph; }

  // The memory of the kernels' operands and results (default: the host's).
  virtual Memory& memory() const;

  // Empty if this node can be lowered; otherwise the reason: "[convolution] stride 3 has no kernel here".
  virtual std::string unsupported(const Graph& graph, const Node& node) const = 0;

  // Row-major without padding: the format of the host and of eager mode.
  virtual Format plain(const TensorType& type) const;

  // Nodes that lead are lowered before all others, so that they choose the formats: the matrix ops.
  virtual bool leads(const Graph& graph, const Node& node) const;

  // Throws Unsupported. May read other parts of the graph (who reads this weight?).
  virtual Lowered lower(const Graph& graph, NodeId node, const Offer& offer) = 0;

  // Moves a value between two formats of this library: one operand, one result, never in place.
  virtual std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) = 0;

  // Graph mode: which buffers of a step may have the same bytes.
  virtual Sharing sharing() const { return Sharing::co_share; }

  // Graph mode: for how many more kernels of the list the bytes of a buffer stay unused once its last reader is enqueued, so
  // that those kernels need not wait for that reader.
  virtual std::int64_t reuse_distance() const { return 0; }

  // Graph mode of inference: whether a kernel that depends only on parameters (a bf16 copy, the slice of a
  // table) runs once for each state instead of in each step.
  virtual bool keeps_constants() const { return false; }

  // Graph mode, called once, after all kernels are bound: `kernels` is the final list. The library may
  // replace neighbours by one kernel of its own (which it owns), for instance all optimizer updates behind
  // one barrier; it touches what they touched. It must not change the order.
  virtual void compact(std::vector<Scheduled>& kernels);

  // Runs a bound list in order. A library that opens one parallel region, or captures, does so here.
  virtual void run(std::span<Kernel* const> kernels);
  // Graph mode: records the work that run() would enqueue with the current pointers; a kernel need not wait for others than
  // those of `needs`. The recording can be repeated as a whole even after the kernels are bound to other pointers. The list
  // has been run before. Null: recording is not supported, use run().
  virtual std::unique_ptr<Recording> record(std::span<Kernel* const> kernels, const Needs& needs);
  // The same for several steps of a single op, one after the other: calls bind(step) before each of [0, steps). Its
  // Recording::seconds() is implemented. Throws Unsupported.
  virtual std::unique_ptr<Recording> record_steps(std::span<Kernel* const> kernels, const Needs& needs,
                                                  std::int64_t steps,
                                                  const std::function<void(std::int64_t)>& bind);
  // Returns when all enqueued work is done.
  virtual void synchronize() {}
  // Executable::agree() and gradient_exchange().
  virtual std::int64_t agree(std::int64_t value) { return value; }
  virtual GradientExchange* gradient_exchange() { return nullptr; }
};

}  // namespace assay
