#include "harness/engine/kernel_executable.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>

#include "harness/engine/memory.hpp"
#include "harness/graph/passes/batch.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

// The step up to its gradients: it updates running statistics, but not parameters and moments.
Graph gradient_graph(const Program& program, const Precision& precision) {
  const Graph step = training_step(program, {precision, true, true});
  GraphCopy copy(step);
  for (std::size_t v = 0; v < step.values().size(); ++v)
    if (step.values()[v].producer == none) copy.add_value(static_cast<ValueId>(v));
  for (const Node& node : step.nodes()) copy.add_node(node);
  copy.add_outputs();
  for (const Update& update : step.updates()) {
    const ValueId of_network = program.inference.find(step.value(update.target).name);
    if (of_network == none || program.inference.value(of_network).role == Role::parameter) continue;
    copy.graph().add_update(copy.at(update.target), copy.at(update.source));
  }
  return copy.graph().pruned();
}

// The graph that is timed; for task decode, that of one token.
Graph timed_step(const Program& program, const CompileOptions& options) {
  switch (options.task) {
    case Task::train:
      return training_step(program, {options.precision, false, false,
                                     options.world > 1 ? std::optional(options.buckets) : std::nullopt});
    case Task::infer:
      break;
    case Task::decode:
      return token_step(program, options.precision);
  }
  return inference_step(program, options.precision);
}

double scalar(const HostTensor& tensor) {
  return tensor.type.dtype == DType::f64 ? tensor.as<double>().front()
                                         : static_cast<double>(tensor.as<float>().front());
}

}  // namespace

KernelExecutable::KernelExecutable(const Program& program, const CompileOptions& options,
                                   std::unique_ptr<KernelLibrary> library)
    : program_(program), options_(options), library_(std::move(library)), store_(*library_) {
  const std::int64_t samples = batch_of(program_);
  packing_ = {packed_inputs(program_.graph(options.task), samples), samples, packs_inputs(program_)};
  main_ = make(timed_step(program_, options_), options.profile);
  if (options.task == Task::decode) prefill_ = make(prefill_step(program_, options_.precision), false);
}

std::unique_ptr<Executor> KernelExecutable::make(const Graph& graph, bool profile) {
  const bool eager = options_.mode == "eager";
  LoweredGraph lowered = lower(graph, *library_, {eager, store_.formats()});
  std::unique_ptr<Executor> executor;
  if (eager) {
    executor = std::make_unique<EagerExecutor>(std::move(lowered), *library_, store_, profile, packing_);
  } else {
    // Only in training are parameters written by another graph.
    const bool frozen = options_.task != Task::train;
    executor =
        std::make_unique<GraphExecutor>(std::move(lowered), *library_, store_, profile, packing_, frozen);
  }
  executor->set_seed(seed());
  return executor;
}

// 0 means that masks are supplied.
std::uint64_t KernelExecutable::seed() const {
  if (supplied_) return 0;
  return options_.seed != 0 ? options_.seed : 0x9e3779b97f4a7c15u;
}

void KernelExecutable::set_state(std::span<const HostTensor> tensors) {
  synchronize();
  for (const std::string& name : store_.names()) {
    if (std::ranges::find(tensors, name, &HostTensor::name) == tensors.end()) store_.restart(name);
  }
  for (const HostTensor& tensor : tensors) store_.write(tensor);
  store_.clear_caches();
  for (Executor* executor : {main_.get(), prefill_.get(), evaluation_.get()}) {
    if (executor != nullptr) executor->state_changed();
  }
}

std::vector<HostTensor> KernelExecutable::state() {
  synchronize();
  std::vector<HostTensor> tensors;
  for (const std::string& name : store_.names()) tensors.push_back(store_.read(name));
  return tensors;
}

void KernelExecutable::supply_masks(std::span<const HostTensor> masks) {
  synchronize();
  for (const HostTensor& mask : masks) store_.write(mask);
  supplied_ = !masks.empty();
  for (Executor* executor : {main_.get(), gradients_.get()}) {
    if (executor != nullptr) executor->set_seed(seed());
  }
}

std::vector<HostTensor> KernelExecutable::masks() {
  synchronize();
  std::vector<HostTensor> tensors;
  for (const std::string& name : store_.masks()) tensors.push_back(store_.read(name));
  return tensors;
}

void KernelExecutable::stage(std::int64_t slot, const HostBatch& batch) {
  main_->stage(slot, batch);
  if (prefill_) prefill_->stage(slot, batch);
}

// Places after the position may have keys of an earlier sample: the mask hides them.
void KernelExecutable::prefill(std::int64_t slot) {
  if (!prefill_) throw std::logic_error("[decode] the program was not compiled for task decode");
  store_.rewind();
  prefill_->run(slot);
  last_ = prefill_.get();
}

void KernelExecutable::next_token(std::int64_t slot) {
  if (last_ == nullptr) throw std::logic_error("[decode] a token was requested before the prompt");
  main_->run(slot);
  last_ = main_.get();
}

void KernelExecutable::step(std::int64_t slot, double learning_rate, std::int64_t step) {
  if (options_.task == Task::decode) {
    prefill(slot);
    for (std::int64_t token = 0; token < program_.generated(); ++token) next_token(slot);
    return;
  }
  main_->set_schedule(learning_rate, step);
  main_->run(slot);
}

double KernelExecutable::loss() {
  if (!main_->has_output("loss")) return std::numeric_limits<double>::quiet_NaN();
  return scalar(main_->output("loss"));
}

std::vector<HostTensor> KernelExecutable::results() {
  Executor& executor = last_ != nullptr ? *last_ : *main_;
  std::vector<HostTensor> tensors;
  for (const std::string& name : executor.output_names()) tensors.push_back(executor.output(name));
  return tensors;
}

Executor& KernelExecutable::evaluation() {
  if (options_.task == Task::infer) return *main_;
  if (!evaluation_) evaluation_ = make(inference_step(program_, options_.precision), false);
  return *evaluation_;
}

void KernelExecutable::evaluate(const HostBatch& batch, float* logits) {
  // For task infer the timed slots are not changed.
  Executor& executor = evaluation();
  executor.stage(Executor::spare_slot, batch);
  executor.run(Executor::spare_slot);
  const HostTensor result = executor.output("logits");
  convert(result.bytes.data(), result.type.dtype, logits, DType::f32, result.type.elements());
}

std::vector<HostTensor> KernelExecutable::gradients(const HostBatch& batch) {
  if (!options_.gradients || options_.task != Task::train) {
    throw std::logic_error("[gradients] the program was compiled without them");
  }
  if (!gradients_) gradients_ = make(gradient_graph(program_, options_.precision), false);
  gradients_->stage(0, batch);
  gradients_->run(0);
  std::vector<HostTensor> tensors;
  for (const std::string& name : gradients_->output_names()) {
    tensors.push_back(gradients_->output(name));
  }
  return tensors;
}

DeviceTimes KernelExecutable::device_times() {
  if (!program_.is_op()) throw Unsupported("[time_device] only a single op is timed on its device alone");
  return main_->device_times();
}

std::map<std::string, std::int64_t> KernelExecutable::memory() const {
  auto memory = main_->memory();
  if (prefill_) {
    for (const auto& [name, bytes] : prefill_->memory()) {
      std::int64_t& both = memory[name];
      both = name == "scratch" ? std::max(both, bytes) : both + bytes;  // scratch: of the largest kernel
    }
    memory["caches"] = store_.cache_bytes();
  }
  memory["persistent"] = store_.bytes();
  memory.merge(library_->memory().usage());
  return memory;
}

std::vector<Graph> graphs_of(const Program& program, const CompileOptions& options) {
  std::vector<Graph> graphs{inference_step(program, options.precision)};
  if (options.task != Task::infer) graphs.push_back(timed_step(program, options));
  if (options.task == Task::decode) graphs.push_back(prefill_step(program, options.precision));
  return graphs;
}

std::string generates_no_tokens(const Program& program, Task task) {
  if (task != Task::decode || program.decoding) return {};
  return fmt::format("[decode] {} does not generate tokens", program.inference.name());
}

std::string first_unsupported(const Program& program, const CompileOptions& options, KernelLibrary& library) {
  if (std::string reason = generates_no_tokens(program, options.task); !reason.empty()) return reason;
  for (const Graph& graph : graphs_of(program, options)) {
    const Graph lowered = options.mode == "eager" ? graph : library.fuse(graph);
    for (const Node& node : lowered.nodes()) {
      if (std::string reason = library.unsupported(lowered, node); !reason.empty()) return reason;
    }
  }
  return {};
}

std::string reason_against_ranks(const Program& program, Task task) {
  if (!program.trains(task)) return "[ranks] ranks share only the training of a network; use --ranks 1";
  for (const Node& node : program.graph(task).nodes()) {
    if (node.attributes.get_or("sparse_gradient", false))
      return "[ranks] row-sparse gradients are not exchanged; use --embedding-gradient dense";
  }
  return {};
}

std::string ops_of_step(const Program& program, const CompileOptions& options,
                        const std::function<bool(const Node&)>& chosen) {
  const Graph step = timed_step(program, options);
  std::set<std::string_view> ops;
  for (const Node& node : step.nodes()) {
    if (chosen(node)) ops.insert(node.op->name());
  }
  return ops.empty() ? "none" : fmt::format("{}", fmt::join(ops, ", "));
}

}  // namespace assay
