// Each cell of a shipped config that names a C++ backend of this tree is one that the backend can run.
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "harness/conductor/config/matrix.hpp"
#include "harness/graph/passes/precision.hpp"
#include "tests/workloads/our_backends.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

TEST(ShippedConfigs, AskOurBackendsForNothingThatTheyRefuse) {
  const std::filesystem::path source(ASSAY_SOURCE_DIR);
  Registries here;
  here.backends = find_backends_in({source / "backends"}, {});
  for (BackendDescription& backend : here.backends.backends) backend.unavailable.clear();
  std::map<std::string, std::unique_ptr<Backend>> ours;
  for (const std::string& name : our_backends()) ours[name] = make_backend(name);
  std::set<std::string> asked;
  for (const auto& entry : std::filesystem::directory_iterator(source / "configs")) {
    for (const Cell& cell : expand(read_config(entry.path()), here).cells) {
      const auto backend = ours.find(cell.axes.backend);
      if (backend == ours.end() || !asked.insert(cell.id).second) continue;
      const CompileOptions options{.task = cell.axes.task,
                                   .mode = cell.axes.mode,
                                   .device = cell.axes.device,
                                   .layout = cell.axes.layout,
                                   .precision = precision_of(cell.axes.precision)};
      const std::string reason = backend->second->unsupported(*cell.program, options);
      // A processor without bf16 refuses it for every network.
      if (options.precision.kind == PrecisionKind::bf16 &&
          reason == backend->second->unsupported(find_workload("mlp").build(32), options))
        continue;
      EXPECT_EQ(reason, "") << cell.id;
    }
  }
  EXPECT_GE(asked.size(), our_backends().size() > 1 ? 100U : 0U);
}

}  // namespace
}  // namespace assay
