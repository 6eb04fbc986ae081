// A worker whose modes are mistakes, and one that makes none. "onednn_<mistake>" makes it in oneDNN's graph
// mode instead of the reference's.
#include "backends/reference/reference_backend.hpp"
#include "harness/worker/backend.hpp"
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
    constexpr std::string_view prefix = "onednn_";
    const std::string_view mode = options.mode;
    const bool onednn = mode.starts_with(prefix);
    const std::string_view name = onednn ? mode.substr(prefix.size()) : mode;
    const Wronged wronged = onednn ? wronged_onednn() : wronged_reference();
    if (!wronged.backend) throw Unsupported("[planted] this build has no oneDNN");
    if (name == "honest") return wronged.backend->compile(program, planned(options));
    return PlantedBackend(find_plant(name), wronged).compile(program, planned(options));
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
