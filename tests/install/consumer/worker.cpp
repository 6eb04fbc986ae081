// The smallest C++ backend: it reports its name, and that it supports nothing.
#include <stdexcept>

#include <harness/worker/backend.hpp>

namespace {

class Idle final : public assay::Backend {
 public:
  assay::BackendInfo info() const override {
    return {.name = "idle", .version = "1", .libraries = {}, .settings = {}};
  }
  std::string unsupported(const assay::Program&, const assay::CompileOptions&) const override {
    return "[idle] has no op at all";
  }
  std::unique_ptr<assay::Executable> compile(const assay::Program&, const assay::CompileOptions&) override {
    throw std::logic_error("compile() after unsupported()");
  }
};

}  // namespace

int main(int argc, char** argv) {
  Idle backend;
  return assay::worker_main(argc, argv, backend);
}
