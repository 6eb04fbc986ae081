#include "harness/engine/kernel_executable.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include "harness/engine/memory.hpp"
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
    const ValueId of_network = program.training.find(step.value(update.target).name);
    if (of_network == none || program.training.value(of_network).role == Role::parameter) continue;
    copy.graph().add_update(copy.at(update.target), copy.at(update.source));
  }
  return copy.graph().pruned();
}

double scalar(const HostTensor& tensor) {
  return tensor.type.dtype == DType::f64 ? tensor.as<double>().front()
                                         : static_cast<double>(tensor.as<float>().front());
}

}  // namespace

KernelExecutable::KernelExecutable(const Program& program, const CompileOptions& options,
                                   std::unique_ptr<KernelLibrary> library)
    : program_(program), options_(options), library_(std::move(library)), store_(*library_) {
  const bool train = options.task == Task::train;
  packing_ = {input_offsets(program_.graph(options.task)), program_.is_op()};
  main_ = make(train ? training_step(program_, {options_.precision, false, false})
                     : inference_step(program_, options_.precision),
               options.profile);
}

std::unique_ptr<Executor> KernelExecutable::make(const Graph& graph, bool profile) {
  const bool eager = options_.mode == "eager";
  LoweredGraph lowered = lower(graph, *library_, {eager, store_.formats()});
  std::unique_ptr<Executor> executor;
  if (eager) {
    executor = std::make_unique<EagerExecutor>(std::move(lowered), *library_, store_, profile, packing_);
  } else {
    // Only in training are parameters written by another graph.
    const bool frozen = options_.task == Task::infer;
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
  main_->state_changed();
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

void KernelExecutable::step(std::int64_t slot, double learning_rate, std::int64_t step) {
  main_->set_schedule(learning_rate, step);
  main_->run(slot);
}

double KernelExecutable::loss() {
  if (!main_->has_output("loss")) return std::numeric_limits<double>::quiet_NaN();
  return scalar(main_->output("loss"));
}

std::vector<HostTensor> KernelExecutable::results() {
  std::vector<HostTensor> tensors;
  for (const std::string& name : main_->output_names()) tensors.push_back(main_->output(name));
  return tensors;
}

Executor& KernelExecutable::evaluation() {
  if (options_.task != Task::train) return *main_;
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

std::map<std::string, std::int64_t> KernelExecutable::memory() const {
  auto memory = main_->memory();
  memory["persistent"] = store_.bytes();
  memory.merge(library_->memory().usage());
  return memory;
}

std::string first_unsupported(const Program& program, const CompileOptions& options, KernelLibrary& library) {
  std::vector<Graph> graphs{inference_step(program, options.precision)};
  if (options.task == Task::train)
    graphs.push_back(training_step(program, {options.precision, false, false}));
  for (const Graph& graph : graphs) {
    const Graph lowered = options.mode == "eager" ? graph : library.fuse(graph);
    for (const Node& node : lowered.nodes()) {
      if (std::string reason = library.unsupported(lowered, node); !reason.empty()) return reason;
    }
  }
  return {};
}

std::string ops_of_step(const Program& program, const CompileOptions& options,
                        const std::function<bool(const Node&)>& chosen) {
  const Graph step = options.task == Task::train ? training_step(program, {options.precision, false, false})
                                                 : inference_step(program, options.precision);
  std::set<std::string_view> ops;
  for (const Node& node : step.nodes()) {
    if (chosen(node)) ops.insert(node.op->name());
  }
  return ops.empty() ? "none" : fmt::format("{}", fmt::join(ops, ", "));
}

}  // namespace assay
