// What a kernel backend brings to the shared executor: formats, kernels, reorders, fusions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/graph/graph.hpp"
#include "harness/graph/memory_plan/placement.hpp"
#include "harness/graph/op.hpp"

namespace assay {

// Two formats are the same layout iff their keys are equal. Cheap to copy.
struct Format {
  std::string key;         // "plain f32 (32, 784)", "AB16b64a f32 (128, 784)"; empty: undecided
  std::int64_t bytes = 0;  // of the storage, padding included; a multiple of nothing in particular
  std::shared_ptr<const void> detail;  // the library's own descriptor, may be null

  bool decided() const { return !key.empty(); }
  bool operator==(const Format& other) const { return key == other.key; }
};

// Used from one thread; what threads it uses inside is its own business. run() neither allocates nor
// synchronises.
class Kernel {
 public:
  virtual ~Kernel() = default;

  // Where the operands are from now on: one pointer per operand and per result of the node, null where it is
  // absent. Every pointer is 64-byte aligned. `scratch` has the bytes that the lowering asked for and holds
  // nothing between runs. Called once in graph mode (again for kernels that read the batch, when the slot
  // changes), before every run in eager mode: so it must be cheap, a few stores. Results may lie over
  // operands where Lowered::in_place says so.
  virtual void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) = 0;

  // Which of the library's implementations it is, for profiles: "brgconv:avx512_core". May be empty.
  virtual std::string_view implementation() const { return {}; }

  // Reads the operands, writes every byte of the results that a reader may look at.
  virtual void run() = 0;
};

class Memory;

// What is settled when a node is lowered. One entry per operand and per result of the node.
struct Offer {
  // The format that the value has, or that an earlier user asked of it. Undecided: nobody has said; choose
  // freely.
  std::vector<Format> inputs;
  // What the readers would like (a gradient: its parameter's format; a new parameter: the parameter's own).
  // Undecided: choose.
  std::vector<Format> outputs;
  // Eager mode: every operand and result is plain, and the lowering must take it so.
  bool plain = false;
};

struct Lowered {
  std::unique_ptr<Kernel> kernel;
  // One per operand and per result, undecided where it is absent. Where one differs from what the value has,
  // the executor puts a reorder between (once per value and format). An opaque value is never reordered; its
  // producer says its bytes here.
  std::vector<Format> inputs;
  std::vector<Format> outputs;
  std::int64_t scratch_bytes = 0;
  std::vector<InPlace> in_place;  // those of in_place(node) that this kernel allows, in these formats
  // Result 0 is operand 0's bytes as they lie (flatten): there is no kernel and nothing is moved.
  bool view = false;
  // Opaque operands that the kernel writes to while it reads them: nothing may read them after it.
  std::vector<std::size_t> overwritten = {};
};

// A kernel of the flat list that graph mode runs, and the node it came from (a reorder: the node that wanted
// it).
struct Scheduled {
  Kernel* kernel = nullptr;
  std::string node;
  std::string op;
};

// A list that was run once, kept with the pointers that its kernels had then.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void run() = 0;
};

// Made for one CompileOptions (threads, precision, mode), used from one thread, outlives its kernels.
class KernelLibrary {
 public:
  virtual ~KernelLibrary() = default;

  // Graph mode, first of all: the graph in the fused ops that this library has. Same inputs, outputs and
  // updates.
  virtual Graph fuse(Graph graph) const { return graph; }

  // Where the operands and results of its kernels lie; the host's own unless it says otherwise.
  virtual Memory& memory() const;

  // Empty, or why this node cannot be lowered: "[convolution] stride 3 has no kernel here".
  virtual std::string unsupported(const Graph& graph, const Node& node) const = 0;

  // Row-major without padding: what the host reads and writes, and what eager mode uses.
  virtual Format plain(const TensorType& type) const;

  // Nodes that lead are lowered before all others, so that they choose and the rest follow: the matrix ops.
  virtual bool leads(const Graph& graph, const Node& node) const;

  // Throws Unsupported. The graph may be looked at beyond the node (who reads this weight?).
  virtual Lowered lower(const Graph& graph, NodeId node, const Offer& offer) = 0;

  // Moves a value between two formats of this library: one operand, one result, never in place.
  virtual std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) = 0;

  // Graph mode: which buffers of a step may have the same bytes.
  virtual Sharing sharing() const { return Sharing::co_share; }

  // Graph mode, once, after all are bound: the list as it will run. The library may put one kernel of its own
  // (which it owns) in the place of neighbours, for instance all optimizer updates behind one barrier. It may
  // not change the order.
  virtual void compact(std::vector<Scheduled>& kernels);

  // Runs a bound list in order. A library that opens one parallel region, or captures, does it here.
  virtual void run(std::span<Kernel* const> kernels);
  // Graph mode: what run() would enqueue with the pointers that are bound now, to be repeated as a whole
  // while the kernels may be bound anew. The list has been run before. Null: run() is all there is.
  virtual std::unique_ptr<Recording> record(std::span<Kernel* const> kernels);
  // Returns when everything that was run is done.
  virtual void synchronize() {}
};

}  // namespace assay
