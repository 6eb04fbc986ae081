// The choice among cuDNN's plans for a graph of its operations.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/cuda/engine_search.hpp"
#include "backends/cuda/gpu/frontend.hpp"
#include "backends/cuda/gpu/planned_engine.hpp"
#include "backends/cuda/gpu/target.hpp"
#include "backends/cuda/layout.hpp"

namespace assay::cuda {

cudnn_frontend::DataType_t type_of(DType dtype);

using GraphTensor = std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>;

// Tensors (N, C, H, W) of one shape, in one layout.
struct Images {
  Shape shape;
  bool channels_last = false;
  // An operand.
  GraphTensor add(cudnn_frontend::graph::Graph& graph, std::int64_t uid,
                  cudnn_frontend::DataType_t type) const;
  // Makes a tensor a result.
  void give(cudnn_frontend::graph::Tensor_attributes& tensor, std::int64_t uid,
            cudnn_frontend::DataType_t type) const;
};
// An operand of f32 (C).
GraphTensor add_vector(cudnn_frontend::graph::Graph& graph, std::int64_t uid, std::int64_t channels);

// Seconds of a run of our own kernels, and of the fastest engine that is right; the second is empty without one.
struct AgainstOwn {
  double own = 0;
  std::optional<double> engine = {};
};
enum class Faster : std::uint8_t { library, own, unknown };

class CudnnPlans : public Engines {
 public:
  // what: for messages, "convolution"; spec: its text among the choices. Borrows what the target borrows.
  CudnnPlans(const Target& target, const char* what, std::string spec)
      : target_(target), what_(what), spec_(std::move(spec)) {}

  // Takes the heuristic's choice: the first that can be built. Returns an empty string, or why cuDNN has none.
  std::string take_first();
  bool has_taken() const { return has_taken_; }
  // Takes the plan of this name, which an earlier search chose, and no other: as that search kept it, or built again. Returns
  // false if cuDNN does not offer it.
  bool take_given(const std::string& name);
  // Takes the fastest that is right, after the heuristic's choice was taken. Returns the seconds of a run, or nothing if there
  // was none: then the choice stays, and is_wrong() says whether all that ran are wrong. Throws OutOfMemory, and the choice
  // stays, too.
  std::optional<double> take_fastest(Memory& trial, const SearchLimits& limits);
  bool is_wrong() const { return is_wrong_; }
  // Whether the library or our own kernels are faster, and takes the library's plan: what an earlier search chose, which was
  // `own` for our own kernels, or by `search`, which calls take_fastest(). Unknown: cuDNN has no engine, or none ran. Throws
  // what the search throws.
  Faster take_if_faster(const std::string& own, const std::function<AgainstOwn()>& search);
  // Keeps what was taken for take_given(), if it was measured.
  void keep();

  // The engine that take_first() takes, or why there is none.
  PlannedEngine plan_first();

  std::int64_t count() const override { return graph_->get_execution_plan_count(); }
  bool is_generated(std::int64_t engine) const override;
  bool build(std::int64_t engine) override;
  std::optional<double> measure(std::int64_t engine, void* workspace) override;

 protected:
  // Adds the operations.
  virtual void describe(cudnn_frontend::graph::Graph& graph) const = 0;
  // There is no engine: whether describe() now has another form of the operations.
  virtual bool describes_otherwise() { return false; }
  virtual std::vector<cudnn_frontend::NumericalNote_t> refused_notes() const = 0;
  // What follows the name of cuDNN's plan: "+epilogue".
  virtual std::string suffix() const { return {}; }
  // Enqueues a run on the operands of the search.
  virtual void try_run(std::int64_t engine, void* workspace) = 0;

  const Target& target() const { return target_; }
  std::int64_t engine() const { return engine_; }
  std::string taken() const {
    return kept_name_.empty() ? name_of(engine_) + (measured_ ? ":measured" : "") : kept_name_;
  }
  std::int64_t bytes_of_plan(std::int64_t engine) const;
  // Where the tensor of a uid is; null for one that the graph does not have.
  using Place = std::pair<std::int64_t, const void*>;
  void execute(std::int64_t engine, std::initializer_list<Place> places, void* workspace);

 private:
  // Reads the plan that an earlier search kept.
  bool take_kept(const std::string& name);
  // The key of what is kept: another one as soon as describe() gives another graph for the same spec.
  std::string key() const;
  // Asks cuDNN for its plans. Returns an empty string, or the reason why it has none.
  std::string ask();
  std::string ask_once();
  // What a name begins with; the bytes of the workspace follow, which are known when the plan is built.
  std::string prefix_of(std::int64_t engine) const;
  std::string name_of(std::int64_t engine) const;

  Target target_;
  const char* what_;
  std::string spec_;
  std::string kept_name_;  // of a plan that was read
  std::unique_ptr<cudnn_frontend::graph::Graph> graph_;
  std::unordered_map<std::int64_t, void*> pointers_;  // by uid
  std::int64_t engine_ = 0;                           // the taken plan
  bool has_taken_ = false, measured_ = false, is_wrong_ = false;
};

}  // namespace assay::cuda
