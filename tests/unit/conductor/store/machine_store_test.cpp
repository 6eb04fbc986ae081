#include "harness/conductor/store/machine_store.hpp"

#include <sys/stat.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/report/environment_difference.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;
using Json = nlohmann::json;

MachineRecord machine(const char* model, double loop_seconds = 300e-6) {
  return {.cpu = {.model = model, .allowed = 2, .loop_seconds = loop_seconds}};
}

TEST(MachineStore, KeepsWhatIsKnownOfEachMachine) {
  const TemporaryFolder folder;
  const MachineStore store(folder / "best");
  const MachineRecord here = machine("a processor");
  EXPECT_FALSE(store.find(here));
  store.keep(here, {{"a", 1}});
  store.keep(here, {{"b", 2}}, "named");
  store.keep(here, {{"b", 3}}, "named");
  EXPECT_EQ(store.find(here), (Json{{"a", 1}}));
  EXPECT_EQ(store.find(here, "named"), (Json{{"b", 3}})) << "in place of what was kept";
  EXPECT_FALSE(store.find(here, "other"));
  EXPECT_FALSE(store.find(machine("another processor")));
  EXPECT_FALSE(store.find(machine("a processor", 400e-6))) << "it is slower now";
  const MachineRecord unknown{.cpu = {.allowed = 2}};
  store.keep(unknown, {{"a", 1}});
  EXPECT_FALSE(store.find(unknown)) << "two unknown machines are not one";
  EXPECT_THAT(store.files_of(machine_fingerprint(here).value()),
              UnorderedElementsAre(store.place(machine_fingerprint(here).value()),
                                   store.place(machine_fingerprint(here).value(), "named")));
}

TEST(MachineStore, TakesDamagedFilesAsAbsent) {
  const TemporaryFolder folder;
  const MachineStore store(folder / "peaks");
  const MachineRecord here = machine("a processor");
  store.keep(here, {{"a", 1}});
  const fs::path file = store.place(machine_fingerprint(here).value());
  for (const char* damaged : {"", "{", "[]", R"({"machine": {}})", R"({"content": {"a": 1}})"}) {
    std::ofstream(file) << damaged;
    EXPECT_FALSE(store.find(here)) << damaged;
  }
  store.keep(here, {{"a", 2}});
  EXPECT_EQ(store.find(here), (Json{{"a", 2}}));
}

TEST(MachineStore, RemovesTheOldestFilesOfAMachine) {
  const TemporaryFolder folder;
  const MachineStore store(folder / "best", 3);
  const MachineRecord here = machine("a processor");
  const std::string fingerprint = machine_fingerprint(here).value();
  for (int i = 0; i < 5; ++i) {
    const std::string name = std::to_string(i);
    store.keep(here, {{"a", i}}, name);
    fs::last_write_time(store.place(fingerprint, name),
                        fs::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  store.keep(here, {{"a", 5}}, "5");
  EXPECT_THAT(store.files_of(fingerprint),
              UnorderedElementsAre(store.place(fingerprint, "3"), store.place(fingerprint, "4"),
                                   store.place(fingerprint, "5")));
}

TEST(MachineStore, LeavesOutHiddenFilesAndNamesWhatIsNoFile) {
  const TemporaryFolder folder;
  const MachineStore store(folder.path());
  fs::create_directories(folder / "0123456789ab");
  std::ofstream(folder / "0123456789ab/1.json") << "{}";
  std::ofstream(folder / "0123456789ab/._1.json") << "of macOS";
  EXPECT_THAT(store.files_of("0123456789ab"), UnorderedElementsAre(folder / "0123456789ab/1.json"));
  const fs::path odd = folder / "0123456789ab/2.json";
  const auto is_refused = [&] {
    EXPECT_THROW(store.files_of("0123456789ab"), IoError);
    fs::remove(odd);
  };
  ASSERT_EQ(::mkfifo(odd.c_str(), 0600), 0);
  is_refused();
  fs::create_symlink("nowhere", odd);
  is_refused();
  fs::create_symlink(odd, odd);
  is_refused();
}

TEST(MachineStore, IgnoresAFolderThatCannotBeWritten) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "not a folder";
  const MachineStore store(folder / "file");
  store.keep(machine("a processor"), {{"a", 1}});
  EXPECT_FALSE(store.find(machine("a processor")));
  EXPECT_TRUE(store.files_of("0123456789ab").empty());
}

}  // namespace
}  // namespace assay
