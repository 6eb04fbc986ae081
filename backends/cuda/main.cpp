// Starts the worker that is linked with CUDA's libraries, if they can be loaded: those of LD_LIBRARY_PATH, then of the
// environment that `assay setup cuda` makes, then where they were at build time. If not, it answers for the worker and
// names the missing libraries.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/paths.hpp"
#include "harness/worker/backend.hpp"

namespace {

namespace fs = std::filesystem;

struct Needed {
  const char* file;
  const char* remedy;
};

constexpr Needed needed[] = {
    {"libcuda.so.1", "install the driver of the NVIDIA GPU"},
    {"libcublasLt.so.13", "assay setup cuda, or name the folder of CUDA 13 in LD_LIBRARY_PATH"},
    {"libnvrtc.so.13", "assay setup cuda, or name the folder of CUDA 13 in LD_LIBRARY_PATH"},
    {"libcudnn.so.9", "assay setup cuda, or name the folder of cuDNN 9 in LD_LIBRARY_PATH"}};

// The folders of the libraries in the environment of Python wheels; none if it was not made.
std::vector<fs::path> folders_of_wheels() {
  std::vector<fs::path> folders;
  const std::string environment = assay::environment_text("ASSAY_CUDA_ENVIRONMENT");
  std::error_code error;
  if (environment.empty()) return folders;
  for (const fs::directory_entry& python : fs::directory_iterator(fs::path(environment) / "lib", error))
    for (const char* folder : {"cu13/lib", "cudnn/lib", "nccl/lib"})
      if (fs::path found = python.path() / "site-packages/nvidia" / folder; fs::is_directory(found, error))
        folders.push_back(std::move(found));
  return folders;
}

// Empty if no library is missing.
std::string missing_library(const std::vector<fs::path>& folders) {
  for (const Needed& library : needed) {
    if (::dlopen(library.file, RTLD_LAZY) != nullptr) continue;
    const std::string reason = fmt::format("[cuda] {}: {}", ::dlerror(), library.remedy);
    if (std::ranges::none_of(folders, [&](const fs::path& folder) {
          return ::dlopen((folder / library.file).c_str(), RTLD_LAZY) != nullptr;
        }))
      return reason;
  }
  return {};
}

void add_to_library_path(const std::vector<fs::path>& folders) {
  std::string path = assay::environment_text("LD_LIBRARY_PATH");
  for (const fs::path& folder : folders) (path += path.empty() ? "" : ":") += folder.string();
  if (!path.empty()) ::setenv("LD_LIBRARY_PATH", path.c_str(), 1);
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
  const std::vector<fs::path> folders = folders_of_wheels();
  std::string reason = missing_library(folders);
  if (reason.empty()) {
    add_to_library_path(folders);
    const auto worker =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "assay-worker-cuda-gpu";
    ::execv(worker.c_str(), argv);
    reason = fmt::format("[cuda] cannot start {}: {}; build again", worker.string(), std::strerror(errno));
  }
  UnavailableBackend backend(reason);
  return assay::worker_main(argc, argv, backend);
}
