#include "harness/engine/kernel_library.hpp"

#include "harness/engine/memory.hpp"
#include "harness/worker/backend.hpp"

namespace assay {

double Recording::seconds() {
  throw Unsupported("[time_device] this backend does not time its device by itself");
}

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

std::unique_ptr<Recording> KernelLibrary::record_steps(std::span<Kernel* const>, const Needs&, std::int64_t,
                                                       const std::function<void(std::int64_t)>&) {
  throw Unsupported("[time_device] this backend has no device apart from the host");
}

}  // namespace assay
