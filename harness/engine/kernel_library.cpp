#include "harness/engine/kernel_library.hpp"

#include "harness/engine/memory.hpp"

namespace assay {

Memory& KernelLibrary::memory() const { return host_memory(); }

Format KernelLibrary::plain(const TensorType& type) const {
  return {"plain " + to_string(type), type.bytes(), nullptr};
}

bool KernelLibrary::leads(const Graph&, const Node&) const { return false; }

void KernelLibrary::compact(std::vector<Scheduled>&) {}

void KernelLibrary::run(std::span<Kernel* const> kernels) {
  for (Kernel* kernel : kernels) kernel->run();
}

std::unique_ptr<Recording> KernelLibrary::record(std::span<Kernel* const>, const Needs&) { return nullptr; }

}  // namespace assay
