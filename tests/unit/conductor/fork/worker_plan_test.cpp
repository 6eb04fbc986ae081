#include "harness/conductor/fork/worker_plan.hpp"

#include <stdlib.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/conductor/fork/exams.hpp"
#include "harness/core/paths.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::Pair;

// The CUDA_VISIBLE_DEVICES of the worker of a rank, if the conductor's is `devices`; null: it is not set.
std::string gpu_of(int rank, int world, const char* devices) {
  const TemporaryFolder folder;
  ::setenv("ASSAY_CACHE", (folder.path() / "cache").c_str(), 1);
  if (devices != nullptr) {
    ::setenv("CUDA_VISIBLE_DEVICES", devices, 1);
  } else {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  BackendDescription backend;
  Cell cell;
  cell.backend = &backend;
  cell.axes.device = DeviceKind::cuda;
  const Registries registries;
  const RunSettings settings;
  DatasetShelf data(std::vector<fs::path>{});
  Exams exams(folder.path() / "exams");
  const ForkContext context{folder.path(), registries, settings, data, exams};
  const ConversationPlan plan = plan_for(cell, backend, {folder / "cell", folder / "tmp"}, {}, context,
                                         {rank, world, "127.0.0.1:29400"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::unsetenv("ASSAY_CACHE");
  const auto found = plan.worker.environment.find("CUDA_VISIBLE_DEVICES");
  const std::string name = found != plan.worker.environment.end() ? found->second : "not set";
  EXPECT_EQ(plan.cuda->devices.value_or("not set"), devices != nullptr && world == 1 ? devices : name)
      << "the sampled GPU is the worker's";
  return name;
}

// Sets variables of this process until the object is destroyed.
class Caller {
 public:
  explicit Caller(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Caller() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::string> variables_;
};

ConversationPlan plan_with(const RunSettings& settings, const BackendDescription& backend,
                           protocol::Verb verb = protocol::Verb::run,
                           const BackendDescription* of_cell = nullptr) {
  const TemporaryFolder folder;
  const Caller cache(std::map<std::string, std::string>{{"ASSAY_CACHE", (folder.path() / "cache").string()}});
  Cell cell;
  cell.backend = of_cell != nullptr ? of_cell : &backend;
  cell.axes.threads = 2;
  const Registries registries;
  DatasetShelf data(std::vector<fs::path>{});
  Exams exams(folder.path() / "exams");
  const ForkContext context{folder.path(), registries, settings, data, exams};
  return plan_for(cell, backend, {folder.path() / "cell", folder.path() / "tmp"}, {{verb}}, context);
}

TEST(WorkerPlan, GivesAWorkerTheNamedVariables) {
  RunSettings settings;
  settings.environment = {{"OMP_WAIT_POLICY", "active"}, {"OMP_SCHEDULE", "static"}, {"FLAGS", "named"}};
  BackendDescription backend;
  backend.environment = {{"FLAGS", "own"}, {"OTHER_FLAGS", "own"}};
  const auto environment = plan_with(settings, backend).worker.environment;
  EXPECT_EQ(environment.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(environment.at("OMP_WAIT_POLICY"), "active");
  EXPECT_EQ(environment.at("FLAGS"), "named") << "above that of the backend";
  EXPECT_EQ(environment.at("OTHER_FLAGS"), "own");
  EXPECT_FALSE(
      plan_with(settings, backend, protocol::Verb::oracle).worker.environment.contains("OMP_SCHEDULE"))
      << "the oracle is not measured";
  const BackendDescription other;
  const auto replaying = plan_with(settings, backend, protocol::Verb::run, &other).worker.environment;
  EXPECT_FALSE(replaying.contains("OMP_SCHEDULE")) << "nor is a backend that replays a run";
  EXPECT_EQ(replaying.at("FLAGS"), "own");
}

TEST(WorkerPlan, GivesTheForksOfACellAFolderForWhatTheyHandOn) {
  BackendDescription backend;
  backend.environment = {{"CHOICES", "${kept}/choices.json"}, {"CACHE", "${cache}/x"}};
  RunSettings settings;
  settings.environment = {{"CHOICES", "named"}};
  const ConversationPlan plan = plan_with(settings, backend);
  const fs::path folder = fs::path(plan.worker.environment.at("CHOICES")).parent_path();
  EXPECT_THAT(folder.string(), HasSubstr("/kept"));
  EXPECT_THAT(plan.worker.confinement.own, Contains(folder / "")) << "it may write there";
  EXPECT_NE(fs::path(plan.worker.environment.at("CACHE")).parent_path(), folder);
}

TEST(WorkerPlan, SharesTheThreadsAmongTheTeamsOfAMode) {
  BackendDescription backend;
  const auto threads = [&] { return plan_with({}, backend).worker.environment.at("OMP_NUM_THREADS"); };
  backend.thread_teams = {{"another mode", 2}};
  EXPECT_EQ(threads(), "2");
  backend.thread_teams[""] = 2;  // the mode of this cell
  EXPECT_EQ(threads(), "1");
  backend.thread_teams[""] = 4;
  EXPECT_EQ(threads(), "1") << "a team has a thread";
}

TEST(WorkerPlan, LeavesTheThreadsToAModeThatChoosesThem) {
  BackendDescription backend;
  backend.own_threads = {""};  // the mode of this cell
  RunSettings settings;
  settings.environment = {{"MKL_NUM_THREADS", "3"}};
  const auto environment = plan_with(settings, backend).worker.environment;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_DYNAMIC"})
    EXPECT_FALSE(environment.contains(name)) << name;
  EXPECT_EQ(environment.at("MKL_NUM_THREADS"), "3") << "it was named";
}

TEST(WorkerPlan, RecordsWhatReachesWorkersAndWhatDoesNot) {
  const Caller caller({{"LD_LIBRARY_PATH", "/opt/lib"},
                       {"GOMP_CPU_AFFINITY", "0"},
                       {"JAX_DISABLE_JIT", "1"},
                       {"OMP_SCHEDULE", "static"},
                       {"UNRELATED", "1"}});
  RunSettings settings;
  settings.environment = {{"OMP_SCHEDULE", "dynamic"}, {"FLAGS", "named"}};
  const auto shared = session_variables(settings);
  EXPECT_THAT(shared, IsSupersetOf({Pair("LD_LIBRARY_PATH", "/opt/lib"), Pair("OMP_SCHEDULE", "dynamic"),
                                    Pair("FLAGS", "named")}));
  EXPECT_FALSE(shared.contains("GOMP_CPU_AFFINITY"));
  EXPECT_FALSE(shared.contains("UNRELATED"));
  const auto dropped = dropped_variables(settings);
  EXPECT_THAT(dropped, IsSupersetOf({"GOMP_CPU_AFFINITY", "JAX_DISABLE_JIT"}));
  EXPECT_THAT(dropped, Not(Contains("OMP_SCHEDULE")));
  const BackendDescription backend;
  const auto own = own_variables(plan_with(settings, backend).worker, settings);
  EXPECT_EQ(own.at("OMP_NUM_THREADS"), "2");
  EXPECT_FALSE(own.contains("OMP_SCHEDULE")) << "it is that of the session";
}

TEST(WorkerPlan, ReadsTheWaitPolicyOfTheWorkerNotOfTheCaller) {
  const Caller caller(std::map<std::string, std::string>{{"OMP_WAIT_POLICY", "passive"}});
  const BackendDescription backend;
  EXPECT_EQ(wait_policy(plan_with({}, backend).worker), "the runtime's own");
}

TEST(WorkerPlan, SaysThatCompiledCodeCannotBeLoaded) {
  const auto never = [](const fs::path&) { return false; };
  BackendDescription backend;
  backend.name = "framework";
  backend.modes = {"eager", "compile"};
  backend.compiles = {"compile"};
  Cell cell;
  cell.backend = &backend;
  cell.axes.mode = "compile";
  EXPECT_THAT(why_code_is_not_loaded(cell, never), IsEmpty()) << "it keeps no files";
  backend.environment = {{"FRAMEWORK_CACHE", "${cache}/framework"}};
  EXPECT_THAT(why_code_is_not_loaded(cell, never),
              HasSubstr("set TMPDIR to a folder from which programs may run"));
  const auto always = [](const fs::path&) { return true; };
  EXPECT_THAT(why_code_is_not_loaded(cell, always), IsEmpty());
  const TemporaryFolder root;
  fs::create_directory(root.path() / "a b");
  const std::string before = environment_text("TMPDIR");
  ::setenv("TMPDIR", (root.path() / "a b").c_str(), 1);
  EXPECT_THAT(why_code_is_not_loaded(cell, always), HasSubstr("set TMPDIR to a folder without them"));
  before.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before.c_str(), 1);
  cell.axes.mode = "eager";
  EXPECT_THAT(why_code_is_not_loaded(cell, never), IsEmpty());
}

TEST(WorkerPlan, GivesEachRankAGpuOfItsOwn) {
  EXPECT_EQ(gpu_of(0, 2, nullptr), "0");
  EXPECT_EQ(gpu_of(1, 2, nullptr), "1");
  EXPECT_EQ(gpu_of(1, 2, "5,GPU-7"), "GPU-7");
  EXPECT_EQ(gpu_of(1, 2, "5"), "-1") << "none is left";
  EXPECT_EQ(gpu_of(0, 1, nullptr), "not set");
  EXPECT_EQ(gpu_of(0, 1, "5,7"), "not set") << "it inherits the conductor's";
}

TEST(ProtectedPaths, AreTheFolderOfTheReportAndTheBackends) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "reports");
  fs::create_symlink(folder / "reports/r.json", folder / "link.json");
  BackendRegistry registry;
  registry.backends.emplace_back().folder = folder / "backends/mine";
  RunSettings settings;
  const auto paths = [&](const fs::path& report) { return protected_paths(report, registry, settings, {}); };
  EXPECT_THAT(paths(folder / "link.json"),
              ::testing::IsSupersetOf({fs::canonical(folder / "reports"), folder / "backends/mine"}));
  EXPECT_THAT(paths("/dev/null"), ::testing::Not(::testing::Contains(fs::path("/dev"))));
  EXPECT_THAT(paths("/dev/shm/r.json"), ::testing::Contains(fs::path("/dev/shm/r.json")))
      << "workers need the folder";
  fs::create_directories(folder / "data");
  settings.data = {folder / "data", "/tmp", "/dev/shm"};
  settings.weights = folder / "weights/w.safetensors";
  const auto given = paths("");
  EXPECT_THAT(given, ::testing::IsSupersetOf({fs::canonical(folder / "data"), folder / "weights"}));
  for (const char* shared : {"/tmp", "/dev/shm"})
    EXPECT_THAT(given, ::testing::Not(::testing::Contains(fs::path(shared)))) << "workers need it";
}

}  // namespace
}  // namespace assay
