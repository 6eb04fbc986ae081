// A graph after lowering: kernels in order, the buffers between them, and reorders where formats differ. It
// has no memory yet.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/engine/kernel_library.hpp"

namespace assay {

// A value in one of its formats.
struct Placed {
  ValueId value = none;
  TensorType type;  // default for an opaque value
  Format format;
  int buffer = none;
};

// Memory that the graph needs, without an address yet.
struct Buffer {
  enum class Kind : std::uint8_t {
    feed,        // filled from the batch or the schedule before the step; one per format that a kernel reads
    persistent,  // a parameter or state, kept between steps; its updated value uses the same buffer if
                 // possible
    transient,   // made within the step
    part,        // some bytes of a transient one
  };
  Kind kind = Kind::transient;
  std::int64_t bytes = 0;
  bool output = false;  // must still be there after the step
  Placed first;         // the value that it was made for; its views are not listed
  int whole =
      none;  // of a part: the transient buffer, which has a lower index, and where the part begins in it
  std::int64_t offset = 0;
};

struct LoweredStep {
  std::string node;
  std::string op;
  std::unique_ptr<Kernel> kernel;
  std::vector<int> inputs;  // index of a buffer, `none` if the operand is absent
  std::vector<int> outputs;
  std::int64_t scratch_bytes = 0;
  std::vector<InPlace> in_place;
  std::vector<std::size_t> overwritten;  // as in Lowered
  const void* alone = nullptr;           // as in Lowered
};

struct LoweredGraph {
  Graph graph;  // after fusion
  std::vector<Buffer> buffers;
  std::vector<LoweredStep> steps;
  std::map<std::string, Placed> outputs;  // the graph's named results

  // The buffer that has the bytes of this one: itself if it is not a part. `none` for `none`.
  int holder(int buffer) const;
};

struct LoweringOptions {
  bool plain = false;                    // eager: no fusion, no format but plain
  std::map<std::string, Format> pinned;  // formats of persistent values that another graph fixed
};

// Chooses formats in one pass over the whole graph: first the leading nodes, then the rest in order; each
// node sees the formats chosen before it. A parameter's moments and gradient are offered the parameter's format.
// Throws Unsupported.
LoweredGraph lower(const Graph& graph, KernelLibrary& library, const LoweringOptions& options);

}  // namespace assay
