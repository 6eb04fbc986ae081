// An Executable made from a kernel library: the code that all backends with their own kernels share.
#pragma once

#include <functional>
#include <memory>

#include "harness/engine/executor.hpp"
#include "harness/worker/backend.hpp"

namespace assay {

// Mode "eager" runs one op after the other; every other mode is planned ahead. Graphs that only an evaluation
// or a check needs are compiled at their first use, so that the compile time covers only the timed program.
class KernelExecutable final : public Executable {
 public:
  KernelExecutable(const Program& program, const CompileOptions& options,
                   std::unique_ptr<KernelLibrary> library);

  void set_state(std::span<const HostTensor> tensors) override;
  void supply_masks(std::span<const HostTensor> masks) override;
  std::vector<HostTensor> masks() override;
  std::vector<HostTensor> state() override;
  void stage(std::int64_t slot, const HostBatch& batch) override;
  void step(std::int64_t slot, double learning_rate, std::int64_t step) override;
  void prefill(std::int64_t slot) override;
  void next_token(std::int64_t slot) override;
  void synchronize() override { library_->synchronize(); }
  double loss() override;
  std::vector<HostTensor> results() override;
  void evaluate(const HostBatch& batch, float* logits) override;
  std::vector<HostTensor> gradients(const HostBatch& batch) override;
  std::int64_t agree(std::int64_t value) override { return library_->agree(value); }
  GradientExchange* gradient_exchange() override { return library_->gradient_exchange(); }
  DeviceTimes device_times() override;
  std::map<std::string, std::int64_t> memory() const override;
  std::vector<OperatorTime> operator_times() const override { return main_->operator_times(); }

 private:
  std::unique_ptr<Executor> make(const Graph& graph, bool profile);
  std::uint64_t seed() const;
  Executor& evaluation();

  Program program_;
  CompileOptions options_;
  std::unique_ptr<KernelLibrary> library_;
  PersistentStore store_;
  Packing packing_;
  bool supplied_ = false;  // masks are supplied: none are drawn
  // The training step; for task infer the inference step, for task decode the step of one token.
  std::unique_ptr<Executor> main_;
  std::unique_ptr<Executor> prefill_;     // of task decode
  Executor* last_ = nullptr;              // of task decode: the one that ran last
  std::unique_ptr<Executor> evaluation_;  // of tasks train and decode
  std::unique_ptr<Executor> gradients_;
};

// The graphs that an executable of a task lowers: the inference, the timed step and the prompt. The program must
// have the task; see generates_no_tokens().
std::vector<Graph> graphs_of(const Program& program, const CompileOptions& options);
// Why the program has no task decode; empty if it has, or for another task.
std::string generates_no_tokens(const Program& program, Task task);

// The complete Backend::unsupported() of a kernel backend: a text about the first node of the program's
// graphs that `library` does not support; empty if it supports all.
std::string first_unsupported(const Program& program, const CompileOptions& options, KernelLibrary& library);

// Why several ranks cannot train the program with the nodes of all_reduce.hpp; empty if they can.
std::string reason_against_ranks(const Program& program, Task task);

// The ops of the timed step with a node for which `chosen` is true: "embedding, lstm", or "none".
std::string ops_of_step(const Program& program, const CompileOptions& options,
                        const std::function<bool(const Node&)>& chosen);

}  // namespace assay
