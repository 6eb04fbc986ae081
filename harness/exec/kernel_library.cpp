#include "harness/exec/kernel_library.hpp"

namespace assay {

Format KernelLibrary::plain(const TensorType& type) const {
  return {"plain " + to_string(type), type.bytes(), nullptr};
}

bool KernelLibrary::leads(const Graph&, const Node&) const { return false; }

void KernelLibrary::compact(std::vector<Scheduled>&) {}

void KernelLibrary::run(std::span<Kernel* const> kernels) {
  for (Kernel* kernel : kernels) kernel->run();
}

}  // namespace assay
