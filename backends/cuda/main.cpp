// Starts the worker that is linked with CUDA's libraries, if they can be loaded. If not, it answers for the
// worker and names the missing libraries.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "harness/worker/backend.hpp"

namespace {

struct Needed {
  const char* file;
  const char* remedy;
};

constexpr Needed needed[] = {{"libcuda.so.1", "install the driver of the NVIDIA GPU"},
                             {"libcublasLt.so.13", "install CUDA 13, or name its folder in LD_LIBRARY_PATH"},
                             {"libnvrtc.so.13", "install CUDA 13, or name its folder in LD_LIBRARY_PATH"},
                             {"libcudnn.so.9", "install cuDNN 9, or name its folder in LD_LIBRARY_PATH"}};

// Empty if no library is missing.
std::string missing_library() {
  for (const Needed& library : needed) {
    if (::dlopen(library.file, RTLD_LAZY) == nullptr)
      return fmt::format("[cuda] {}: {}", ::dlerror(), library.remedy);
  }
  return {};
}

class UnavailableBackend final : public assay::Backend {
 public:
  explicit UnavailableBackend(std::string reason) : reason_(std::move(reason)) {}
  assay::BackendInfo info() const override { return {"cuda", "", {}, {}}; }
  bool has_ranks() const override { return true; }
  std::string unsupported(const assay::Program&, const assay::CompileOptions&) const override { return {}; }
  std::unique_ptr<assay::Executable> compile(const assay::Program&, const assay::CompileOptions&) override {
    throw assay::Unavailable(reason_);
  }

 private:
  std::string reason_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string reason = missing_library();
  if (reason.empty()) {
    const auto worker =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "assay-worker-cuda-gpu";
    ::execv(worker.c_str(), argv);
    reason = fmt::format("[cuda] cannot start {}: {}; build again", worker.string(), std::strerror(errno));
  }
  UnavailableBackend backend(reason);
  return assay::worker_main(argc, argv, backend);
}
