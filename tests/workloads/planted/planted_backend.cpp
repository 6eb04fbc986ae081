#include "tests/workloads/planted/planted_backend.hpp"

#include <algorithm>
#include <stdexcept>

#include "backends/reference/reference_backend.hpp"
#include "backends/reference/reference_library.hpp"
#include "harness/exec/kernel_executable.hpp"

namespace assay {
namespace {

class PlantedKernel final : public Kernel {
 public:
  PlantedKernel(const Graph& graph, const Node& node, std::unique_ptr<Kernel> kernel, const Plant& plant)
      : kernel_(std::move(kernel)), call_(graph, node, *kernel_), plant_(plant) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    call_.bind(inputs, outputs, scratch);
  }
  void run() override { plant_.act(call_); }

 private:
  std::unique_ptr<Kernel> kernel_;
  PlantedCall call_;
  const Plant& plant_;
};

class PlantedLibrary final : public KernelLibrary {
 public:
  PlantedLibrary(const Plant& plant, int threads, bool active)
      : plant_(plant), library_(threads), active_(active) {}

  std::string unsupported(const Graph& graph, const Node& node) const override {
    return library_.unsupported(graph, node);
  }
  Lowered lower(const Graph& graph, NodeId id, const Offer& offer) override {
    const Node& node = graph.node(id);
    Lowered lowered = library_.lower(graph, id, offer);
    if (!active_ || std::ranges::find(plant_.ops, node.op->name()) == plant_.ops.end()) return lowered;
    lowered.in_place.clear();
    lowered.kernel = std::make_unique<PlantedKernel>(graph, node, std::move(lowered.kernel), plant_);
    return lowered;
  }
  std::unique_ptr<Kernel> reorder(const TensorType& type, const Format& from, const Format& to) override {
    return library_.reorder(type, from, to);
  }

 private:
  const Plant& plant_;
  reference::ReferenceLibrary library_;
  bool active_;
};

}  // namespace

PlantedCall::PlantedCall(const Graph& graph, const Node& node, Kernel& kernel)
    : attributes_(node.attributes),
      input_types_(input_types(graph, node)),
      output_types_(output_types(graph, node)),
      kernel_(kernel) {}

void PlantedCall::bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) {
  inputs_.assign(inputs.begin(), inputs.end());
  outputs_.assign(outputs.begin(), outputs.end());
  read_ = inputs_;
  scratch_ = scratch;
}

void PlantedCall::replace(std::size_t i, std::vector<float>& values) { read_.at(i) = values.data(); }

void PlantedCall::run() {
  kernel_.bind(read_, outputs_, scratch_);
  kernel_.run();
  read_ = inputs_;
}

const Plant& find_plant(std::string_view name) {
  std::string known;
  for (const Plant& plant : all_plants()) {
    if (plant.name == name) return plant;
    known += " " + std::string(plant.name);
  }
  throw std::invalid_argument("[planted] no mistake '" + std::string(name) + "'; there are" + known);
}

BackendInfo PlantedBackend::info() const {
  BackendInfo info = reference::ReferenceBackend().info();
  info.name = "planted";
  return info;
}

std::string PlantedBackend::unsupported(const Program& program, const CompileOptions& options) const {
  return reference::ReferenceBackend().unsupported(program, options);
}

std::unique_ptr<Executable> PlantedBackend::compile(const Program& program, const CompileOptions& options) {
  const bool active = !plant_.timed_only || !options.check;
  return std::make_unique<KernelExecutable>(
      program, options, std::make_unique<PlantedLibrary>(plant_, options.threads, active));
}

}  // namespace assay
