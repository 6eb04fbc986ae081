// A named network with its data and hyper-parameters. It names no backend.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/graph/builder.hpp"
#include "harness/graph/program.hpp"

namespace assay {

struct ImportedNetwork;

// Adds the layers to the builder, from `inputs` (N, sample_shape...) to logits (N, classes), or (N, T,
// classes) if every position has a label.
using NetworkFunction = std::function<ValueId(GraphBuilder& builder, ValueId inputs, std::int64_t classes)>;

// The size of a network that tests check against the oracle.
struct SmallForm {
  std::int64_t batch = 0;   // 0: the network itself
  Shape sample_shape = {};  // empty: the default one
  std::int64_t classes = 0;
  NetworkFunction network = {};  // with fewer of the same layers; empty: the network itself
  std::int64_t vocabulary = 0;   // of that network; 0: the default one
};

// The tensors of a published file of weights (--weights) that are the parameters of a network. A tensor has
// the name of its parameter, in some files after a prefix.
struct PublishedTensors {
  std::string prefix = {};  // "bert."; a file without it is taken, too
  // Ends of names that some files spell differently, and how.
  std::vector<std::pair<std::string, std::string>> renamed = {};
  std::vector<std::string> without = {};  // parameters that no file has: beginnings of their names
  // Whether there are such files.
  bool any() const { return !without.empty(); }
};

// What a network is built for.
struct NetworkForm {
  std::int64_t batch = 0;
  Shape sample = {};  // without the batch
  std::int64_t classes = 0;
  Task task = Task::train;
  OptimizerSpec optimizer = {};
  bool sparse_embedding_gradients = false;  // row-sparse, for the tables of all embeddings
  double norm_momentum = 0;                 // of all batch norms; 0: that of each layer
  std::string recompute = "none";           // harness/graph/passes/recompute.hpp has the policies
  auto operator<=>(const NetworkForm&) const = default;
};

struct Workload {
  std::string name;              // "lenet5"
  std::string description = {};  // one line
  std::string source = {};       // where the network and its hyper-parameters come from
  std::string dataset = {};      // the default one: "fashion-mnist"
  Shape sample_shape;            // of one sample: (1, 28, 28)
  std::int64_t vocabulary = 0;   // above 0: samples are i32 tokens below it, otherwise f32
  std::int64_t padding = -1;     // the token that fills up short texts at their end; -1: none
  bool next_token = false;       // a sample (T) has T labels: at each position the token that follows
  std::int64_t positions = 0;    // labels of a sample that are not next tokens; 0: one
  bool decodes = false;          // it can generate tokens: its network supports GraphBuilder::decoding()
  std::int64_t classes = 0;
  std::int64_t parameters = 0;  // expected, with the default samples and classes; checked by tests
  std::int64_t batch = 0;       // the default
  SmallForm small = {};         // for a network that is too deep or too large to check quickly
  OptimizerSpec optimizer = {};
  double learning_rate = 0;           // the base rate of the schedule
  std::string schedule = "constant";  // harness/conductor/config/rate_schedule.hpp has the forms
  std::string augmentation =
      "none";  // of the training images: harness/conductor/data/epoch_plan.hpp has the forms
  NetworkFunction network;
  // Instead of `network`, for what that cannot say: several inputs, outputs that are no logits. Without training in the
  // form, the program has none.
  std::function<Program(const NetworkForm& form)> make_program = {};
  PublishedTensors published = {};
  std::shared_ptr<const ImportedNetwork> imported = {};  // of a network that a user brought; else null

  // With the default samples, classes and optimizer.
  NetworkForm form(std::int64_t batch_size, Task task = Task::train) const;
  // Throws GraphError if the batch or the shape does not fit. For task decode also the graphs of decoding, if it
  // generates tokens: the prompt is the first half of a sample.
  Program build(const NetworkForm& form) const;
  Program build(std::int64_t batch_size) const { return build(form(batch_size)); }
  Program build(std::int64_t batch_size, const Shape& sample, std::int64_t class_count,
                Task task = Task::train) const;
  Program build_small(Task task = Task::train) const;

  // Whether samples are sequences, which may have any length.
  bool is_sequence() const { return vocabulary > 0 && sample_shape.size() == 1; }

 private:
  Graph decoding_graph(const Shape& inputs, std::int64_t prompt, std::int64_t class_count, bool step) const;
};

// A workload that is inferred, and computes what this graph does, with any number of samples. The sizes of its other
// dimensions are those of the graph. Throws GraphError if no batch can be found in its inputs and outputs.
Workload workload_of(Graph inference);

// The networks of this build, in the order of registry.cpp; valid until the program ends.
std::span<const Workload> all_workloads();
// One of them. Throws GraphError with the nearest known name. What a run can name is in a WorkloadRegistry.
const Workload& find_workload(std::string_view name);

}  // namespace assay
