#include "harness/report/environment_difference.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/encode.hpp"
#include "harness/report/report_json.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::IsEmpty;
using Json = nlohmann::json;

MachineRecord machine() {
  MachineRecord made;
  made.cpu = {.model = "AMD EPYC",
              .vendor = "AuthenticAMD",
              .family = "25",
              .model_number = "17",
              .stepping = "1",
              .microcode = "0xa",
              .architecture = "x86_64",
              .allowed = 2,
              .instruction_sets = std::vector<std::string>{"avx2", "fma"},
              .caches =
                  std::vector<CacheRecord>{
                      {.level = 1, .type = "Data", .bytes = 32768, .shared_by = 1, .count = 2},
                      {.level = 3, .type = "Unified", .bytes = 33554432, .shared_by = 2, .count = 1}},
              .loop_seconds = 300e-6};
  made.control_group.cpu_quota = std::nullopt;
  made.gpus = std::vector<GpuRecord>();
  return made;
}

struct Change {
  const char* name;
  void (*apply)(MachineRecord&);
  bool hard;
  DifferenceKind kind;
};
class OtherMachine : public ::testing::TestWithParam<Change> {};

TEST_P(OtherMachine, IsOneDifferenceOfItsKind) {
  MachineRecord other = machine();
  GetParam().apply(other);
  const auto found = machine_differences(machine(), other);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].hard, GetParam().hard) << found[0].what;
  EXPECT_EQ(found[0].kind, GetParam().kind) << found[0].what;
  const bool measured = GetParam().kind == DifferenceKind::speed;
  EXPECT_EQ(machine_fingerprint(machine()) != machine_fingerprint(other), GetParam().hard && !measured);
}

INSTANTIATE_TEST_SUITE_P(
    Of, OtherMachine,
    ::testing::Values(
        Change{"Family", [](MachineRecord& m) { m.cpu.family = "26"; }, true, DifferenceKind::processor},
        Change{"ModelNumber", [](MachineRecord& m) { m.cpu.model_number = "2"; }, true,
               DifferenceKind::processor},
        Change{"Stepping", [](MachineRecord& m) { m.cpu.stepping = "0"; }, true, DifferenceKind::processor},
        Change{"Vendor", [](MachineRecord& m) { m.cpu.vendor = "GenuineIntel"; }, true,
               DifferenceKind::processor},
        Change{"Caches", [](MachineRecord& m) { m.cpu.caches->at(0).bytes = 49152; }, true,
               DifferenceKind::processor},
        Change{"CacheSharing", [](MachineRecord& m) { m.cpu.caches->at(1).shared_by = 1; }, true,
               DifferenceKind::processor},
        Change{"InstructionSets", [](MachineRecord& m) { m.cpu.instruction_sets->push_back("avx_vnni"); },
               true, DifferenceKind::processor},
        Change{"Cpus", [](MachineRecord& m) { m.cpu.allowed = 4; }, true, DifferenceKind::cpus},
        Change{"Quota", [](MachineRecord& m) { m.control_group.cpu_quota = 1.5; }, true,
               DifferenceKind::cpus},
        Change{"Gpu", [](MachineRecord& m) { m.gpus->push_back({.model = "A Card"}); }, true,
               DifferenceKind::gpu},
        Change{"Speed", [](MachineRecord& m) { m.cpu.loop_seconds = 350e-6; }, true, DifferenceKind::speed},
        Change{"Microcode", [](MachineRecord& m) { m.cpu.microcode = "0xb"; }, false,
               DifferenceKind::system}),
    [](const auto& row) { return row.param.name; });

TEST(MachineDifferences, IgnoreTheOrderOfListsAndSmallDifferencesOfSpeed) {
  MachineRecord other = machine();
  std::ranges::reverse(*other.cpu.instruction_sets);
  std::ranges::reverse(*other.cpu.caches);
  other.cpu.loop_seconds = 340e-6;
  EXPECT_THAT(machine_differences(machine(), other), IsEmpty());
  EXPECT_EQ(machine_fingerprint(machine()), machine_fingerprint(other));
}

TEST(MachineDifferences, WarnOfWhatAnEarlierReportDoesNotHave) {
  MachineRecord earlier = machine();
  earlier.cpu.family = {};
  earlier.cpu.model_number = {};
  earlier.cpu.stepping = {};
  earlier.cpu.loop_seconds = {};
  const auto found = machine_differences(earlier, machine());
  ASSERT_EQ(found.size(), 3U);
  for (const EnvironmentDifference& one : found) {
    EXPECT_FALSE(one.hard) << one.what;
    EXPECT_EQ(one.base, "not known");
  }
  EXPECT_THAT(machine_differences(earlier, earlier), IsEmpty());
}

// What calibrations, searches for the best mode and resumed reports go by.
TEST_P(OtherMachine, IsKnownFromWhatAFileKeeps) {
  MachineRecord other = machine();
  GetParam().apply(other);
  const MachineRecord kept = machine_identity(machine());
  EXPECT_THAT(machine_differences(kept, machine()), IsEmpty());
  EXPECT_EQ(machine_differences(kept, other), machine_differences(machine(), other));
  const auto hard = other_machine(kept, other);
  ASSERT_EQ(hard.has_value(), GetParam().hard);
  EXPECT_TRUE(!hard || hard->kind == GetParam().kind);
}

TEST(MachineDifferences, ShowOnlyWhatDiffersInAList) {
  MachineRecord other = machine();
  other.cpu.instruction_sets->push_back("avx_vnni");
  other.cpu.caches->at(0).bytes = 49152;
  const auto found = machine_differences(machine(), other);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].base, "without avx_vnni");
  EXPECT_EQ(found[0].current, "avx_vnni");
  EXPECT_EQ(found[1].base, R"([1,"Data",32768,1])");
  EXPECT_EQ(found[1].current, R"([1,"Data",49152,1])");
  MachineRecord one = machine(), two = machine();
  one.gpus = std::vector<GpuRecord>{{.model = "A Card"}};
  two.gpus = std::vector<GpuRecord>{{.model = "A Card"}, {.model = "A Card"}};
  EXPECT_EQ(machine_differences(one, two).at(0).current, R"(["A Card","A Card"])");
}

TEST(MachineIdentity, KeepsOnlyWhatIsCompared) {
  MachineRecord full = machine();
  full.host = "elsewhere";
  full.cpu.maximum_hz = 3'000'000'000;
  EXPECT_EQ(machine_identity(full), machine());
}

TEST(MachineDifferences, TwoUnknownProcessorsAreNotTheSame) {
  MachineRecord unknown;
  unknown.cpu.allowed = 2;
  const auto found = machine_differences(unknown, unknown);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].hard);
  MachineRecord on_arm = unknown;
  on_arm.cpu.model_number = "0xd40";
  EXPECT_THAT(machine_differences(on_arm, on_arm), IsEmpty()) << "Arm's kernel has a number and no name";
  EXPECT_TRUE(machine_fingerprint(on_arm));
}

// Files of baselines, calibrations and peaks are named by it.
TEST(MachineFingerprint, IsThatOfTheReleasesBefore) {
  const auto of = [](const char* name) {
    return machine_fingerprint(
        read_report(std::string(ASSAY_SOURCE_DIR "/results/samples/") + name).environment);
  };
  EXPECT_EQ(of("paltenghi-b/report.json.gz"), "0b6d1d4abec4");
  EXPECT_EQ(of("mxnet-raw-speed/alexnet.json.gz"), "a265e14c326a");
  EXPECT_EQ(of("paltenghi-a/ends.json.gz"), "507c2551b140") << "with the fields of later versions";
  MachineRecord limited = machine();
  limited.control_group.cpu_quota = 2.0;
  limited.gpus = std::vector<GpuRecord>{{.model = "A Card", .uuid = "GPU-0"}};
  EXPECT_EQ(machine_fingerprint(limited), "12de97454410");
}

TEST(MachineIdentity, IsWrittenAsBefore) {
  MachineRecord made = machine();
  made.kernel = "Linux 6.1";
  EXPECT_EQ(encode(machine_identity(made)), Json::parse(R"({
      "cpu": {"model": "AMD EPYC", "vendor": "AuthenticAMD", "family": "25", "model_number": "17", "stepping": "1",
              "microcode": "0xa", "architecture": "x86_64", "allowed": 2, "instruction_sets": ["avx2", "fma"],
              "caches": [{"level": 1, "type": "Data", "bytes": 32768, "shared_by": 1, "count": 2},
                         {"level": 3, "type": "Unified", "bytes": 33554432, "shared_by": 2, "count": 1}],
              "loop_seconds": 300e-6},
      "control_group": {"cpu_quota": null}, "gpus": [], "kernel": "Linux 6.1"})"));
}

// Both call themselves "AMD EPYC", with 2 processors.
TEST(MachineDifferences, SeparateTheProcessorsOfTheShippedSamples) {
  const auto sample = [](const char* name) {
    return read_report(std::string(ASSAY_SOURCE_DIR "/results/samples/") + name);
  };
  const Report one = sample("paltenghi-b/report.json.gz"), other = sample("mxnet-raw-speed/alexnet.json.gz"),
               third = sample("recompute/report.json.gz");
  const auto is_processor = [](const EnvironmentDifference& difference) {
    return difference.hard && difference.kind == DifferenceKind::processor;
  };
  EXPECT_TRUE(std::ranges::any_of(machine_differences(one.environment, other.environment), is_processor));
  EXPECT_NE(machine_fingerprint(one.environment), machine_fingerprint(other.environment));
  EXPECT_EQ(machine_fingerprint(other.environment), machine_fingerprint(third.environment));
}

Report with_library(protocol::Library library) {
  Report report;
  report.environment = machine();
  report.cells = {test::sample_cell("onednn", "graph", 2e-3, 6)};
  report.cells[0].libraries = {std::move(library)};
  return report;
}

TEST(EnvironmentDifferences, JudgeALibraryByWhereItIsFrom) {
  const auto differences = [](protocol::Library library) {
    const Report base = with_library(library);
    library.version = "build-id 2";
    return environment_differences(base, with_library(library));
  };
  EXPECT_THAT(differences({.name = "worker", .version = "1", .path = {}, .under_test = true}), IsEmpty());
  for (const char* earlier : {"assay-worker-onednn", "libassay_batch"})
    EXPECT_THAT(differences({.name = earlier, .version = "1"}), IsEmpty()) << earlier;
  const auto given = differences({.name = "oneDNN", .version = "3.1"});
  ASSERT_EQ(given.size(), 1U);
  EXPECT_TRUE(given[0].hard);
  EXPECT_EQ(given[0].backend, "onednn");
  EXPECT_EQ(given[0].library, "oneDNN");
  const auto system = differences({.name = "libm", .version = "1"});
  ASSERT_EQ(system.size(), 1U);
  EXPECT_FALSE(system[0].hard);
}

}  // namespace
}  // namespace assay
