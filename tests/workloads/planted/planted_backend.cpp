#include "tests/workloads/planted/planted_backend.hpp"

#include <algorithm>
#include <stdexcept>

#include "backends/reference/reference_backend.hpp"
#include "backends/reference/reference_library.hpp"
#include "harness/engine/kernel_executable.hpp"
#ifdef ASSAY_TEST_ONEDNN
#include "backends/onednn/backend.hpp"
#include "backends/onednn/library.hpp"
#endif

namespace assay {
namespace {

class PlantedKernel final : public Kernel {
 public:
  PlantedKernel(const Graph& graph, const Node& node, Lowered lowered, KernelLibrary& library,
                const Plant& plant)
      : call_(graph, node, std::move(lowered), library), plant_(plant) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    call_.bind(inputs, outputs, scratch);
  }
  void run() override { call_.act(plant_.act); }

 private:
  PlantedCall call_;
  const Plant& plant_;
};

class PlantedLibrary final : public KernelLibrary {
 public:
  PlantedLibrary(const Plant& plant, std::unique_ptr<KernelLibrary> library, std::shared_ptr<int> planted)
      : plant_(plant), library_(std::move(library)), planted_(std::move(planted)) {}

  Graph fuse(Graph graph) const override { return library_->fuse(std::move(graph)); }
  std::string unsupported(const Graph& graph, const Node& node) const override {
    return library_->unsupported(graph, node);
  }
  Format plain(const TensorType& type) const override { return library_->plain(type); }
  bool leads(const Graph& graph, const Node& node) const override { return library_->leads(graph, node); }
  Lowered lower(const Graph& graph, NodeId id, const Offer& offer) override {
    const Node& node = graph.node(id);
    Lowered lowered = library_->lower(graph, id, offer);
    if (lowered.view || !is_wronged(node)) return lowered;
    Lowered wronged{nullptr, lowered.inputs, lowered.outputs, lowered.scratch_bytes, {}, false};
    wronged.kernel = std::make_unique<PlantedKernel>(graph, node, std::move(lowered), *library_, plant_);
    ++*planted_;
    return wronged;
  }
  std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) override {
    return library_->reorder(type, from, to);
  }
  void compact(std::vector<Scheduled>& kernels) override { library_->compact(kernels); }
  void run(std::span<Kernel* const> kernels) override { library_->run(kernels); }
  void synchronize() override { library_->synchronize(); }

 private:
  bool is_wronged(const Node& node) const {
    if (plant_.in.fused_only && !node.attributes.has("activation")) return false;
    return std::ranges::find(plant_.ops, node.op->name()) != plant_.ops.end();
  }

  const Plant& plant_;
  std::unique_ptr<KernelLibrary> library_;
  std::shared_ptr<int> planted_;
};

// One for each operand or result; without values if it is neither f32 nor bf16.
std::vector<PlainOperand> operands(const Graph& graph, std::span<const ValueId> values,
                                   const std::vector<TensorType>& types, const std::vector<Format>& formats,
                                   KernelLibrary& library) {
  std::vector<PlainOperand> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_float = types[i].dtype == DType::f32 || types[i].dtype == DType::bf16;
    const bool hidden = values[i] == none || graph.value(values[i]).opaque || !is_float;
    result.push_back(hidden ? PlainOperand(types[i]) : PlainOperand(types[i], formats[i], library));
  }
  return result;
}

}  // namespace

PlantedCall::PlantedCall(const Graph& graph, const Node& node, Lowered lowered, KernelLibrary& library)
    : attributes_(node.attributes),
      kernel_(std::move(lowered.kernel)),
      inputs_(operands(graph, node.inputs, input_types(graph, node), lowered.inputs, library)),
      outputs_(operands(graph, node.outputs, output_types(graph, node), lowered.outputs, library)),
      shared_(node.inputs.size()),
      results_(node.outputs.size()),
      memories_(static_cast<std::size_t>(group_count(*node.op, node.inputs.size()))) {
  if (node.op->repeats() == 0) return;
  repeats_ = static_cast<std::size_t>(node.op->repeats());
  shared_ = node.op->operands().size() - repeats_;
  results_ = node.op->results().size();
}

void PlantedCall::bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) {
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs_[i].bind(inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs_[i].bind(outputs[i]);
  scratch_ = scratch;
}

// No result shares memory with an operand, so that the kernel may run once per group; the results of the
// others are then right, and only those of this group are kept.
void PlantedCall::run() {
  std::vector<void*> inputs, outputs;
  for (PlainOperand& input : inputs_) inputs.push_back(input.pointer_for_kernel());
  for (PlainOperand& output : outputs_) outputs.push_back(output.pointer_for_kernel());
  kernel_->bind(inputs, outputs, scratch_);
  kernel_->run();
  for (std::size_t i = 0; i < results_; ++i) outputs_[output_at(i)].load();
  for (PlainOperand& input : inputs_) input.reset();
}

void PlantedCall::act(const std::function<void(PlantedCall&)>& mistake) {
  for (PlainOperand& input : inputs_) input.load();
  for (group_ = 0; group_ < memories_.size(); ++group_) mistake(*this);
  group_ = 0;
  for (PlainOperand& output : outputs_) output.store();
}

const Plant& find_plant(std::string_view name) {
  std::string known;
  for (const Plant& plant : all_plants()) {
    if (plant.name == name) return plant;
    known += " " + std::string(plant.name);
  }
  throw std::invalid_argument("[planted] no mistake '" + std::string(name) + "'; there are" + known);
}

Wronged wronged_reference() {
  return {std::make_shared<reference::ReferenceBackend>(), &reference::make_kernel_library};
}

Wronged wronged_onednn() {
#ifdef ASSAY_TEST_ONEDNN
  return {std::make_shared<onednn::OnednnBackend>(), &onednn::make_kernel_library};
#else
  return {};
#endif
}

BackendInfo PlantedBackend::info() const {
  BackendInfo info = wronged_.backend->info();
  info.name = "planted";
  return info;
}

std::string PlantedBackend::unsupported(const Program& program, const CompileOptions& options) const {
  return wronged_.backend->unsupported(program, options);
}

std::unique_ptr<Executable> PlantedBackend::compile(const Program& program, const CompileOptions& options) {
  return std::make_unique<KernelExecutable>(
      program, options, std::make_unique<PlantedLibrary>(plant_, wronged_.kernels(options), planted_));
}

}  // namespace assay
