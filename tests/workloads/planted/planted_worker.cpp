// A worker whose modes are mistakes, and one that makes none.
#include "backends/reference/reference_backend.hpp"
#include "tests/workloads/planted/planted_backend.hpp"

namespace assay {
namespace {

class PlantedModes final : public Backend {
 public:
  BackendInfo info() const override {
    BackendInfo info = reference_.info();
    info.name = "planted";
    return info;
  }
  std::string unsupported(const Program& program, const CompileOptions& options) const override {
    return reference_.unsupported(program, planned(options));
  }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    if (options.mode == "honest") return reference_.compile(program, planned(options));
    return PlantedBackend(find_plant(options.mode)).compile(program, planned(options));
  }

 private:
  static CompileOptions planned(CompileOptions options) {
    options.mode = "graph";
    return options;
  }
  reference::ReferenceBackend reference_;
};

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  assay::PlantedModes backend;
  return assay::worker_main(argc, argv, backend);
}
