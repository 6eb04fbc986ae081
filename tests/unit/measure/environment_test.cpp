#include "harness/measure/environment.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/measure/system_files.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;

// A root folder with what a machine of two cores with two threads each would tell.
class Machine : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("assay-machine-" + std::to_string(::getpid()));
    write("proc/cpuinfo",
          "processor\t: 0\nvendor_id\t: Somebody\nmodel name\t: A processor\nflags\t\t: sse4_2 avx2 fpu "
          "hypervisor\n");
    write("proc/meminfo", "MemTotal:       16 kB\nMemAvailable:   8 kB\nSwapTotal:      4 kB\n");
    write("proc/loadavg", "1.50 0.75 0.25 1/2 3\n");
    write("etc/os-release", "NAME=Linux\nPRETTY_NAME=\"A Linux 1.0\"\n");
    write("sys/devices/system/cpu/online", "0-3\n");
    write("sys/devices/system/node/online", "0\n");
    write("sys/fs/cgroup/cpu.max", "150000 100000\n");
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    for (int cpu = 0; cpu < 4; ++cpu) {
      const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
      write(folder + "/topology/physical_package_id", "0");
      write(folder + "/topology/core_id", std::to_string(cpu / 2));
      write(folder + "/cache/index0/level", "1");
      write(folder + "/cache/index0/type", "Data");
      write(folder + "/cache/index0/size", "32K");
      write(folder + "/cache/index0/shared_cpu_list", cpu < 2 ? "0-1" : "2-3");
    }
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  fs::path root_;
};

TEST_F(Machine, is_told_by_its_files) {
  const json told = environment(root_);
  EXPECT_EQ(told["os"], "A Linux 1.0");
  EXPECT_EQ(told["cpu"]["model"], "A processor");
  EXPECT_EQ(told["cpu"]["logical"], 4);
  EXPECT_EQ(told["cpu"]["cores"], 2);
  EXPECT_EQ(told["cpu"]["sockets"], 1);
  EXPECT_EQ(told["cpu"]["threads_per_core"], 2);
  EXPECT_EQ(told["cpu"]["instruction_sets"], json({"sse4_2", "avx2"}));
  EXPECT_EQ(told["cpu"]["caches"],
            json::parse(R"([{"level": 1, "type": "Data", "bytes": 32768, "count": 2}])"));
  EXPECT_EQ(told["memory"]["total"], 16384);
  EXPECT_EQ(told["memory"]["huge_pages"], "madvise");
  EXPECT_EQ(told["virtualised"], true);
  EXPECT_EQ(told["cpu_quota"], 1.5);
  EXPECT_EQ(told["load_average"][0], 1.5);
}

TEST_F(Machine, says_what_makes_numbers_unsteady_and_what_to_do) {
  const json told = environment(root_);
  std::string all;
  for (const json& cause : told["unsteady"]) {
    all += cause["what"].get<std::string>() + "\n";
    EXPECT_FALSE(cause["remedy"].get<std::string>().empty());
  }
  for (const char* what : {"governor is powersave", "hypervisor", "2 hardware threads", "load was 1.50",
                           "1.50 cores", "swapped"})
    EXPECT_THAT(all, ::testing::HasSubstr(what));
}

TEST_F(Machine, that_tells_nothing_is_null_and_no_error) {
  fs::remove_all(root_);
  const json told = environment(root_);
  EXPECT_TRUE(told["os"].is_null());
  EXPECT_TRUE(told["cpu"]["model"].is_null());
  EXPECT_TRUE(told["cpu"]["logical"].is_null());
  EXPECT_TRUE(told["cpu"]["threads_per_core"].is_null());
  EXPECT_TRUE(told["memory"]["total"].is_null());
  EXPECT_TRUE(told["virtualised"].is_null());
}

TEST(Environment, of_this_machine_has_a_model_and_a_clock) {
  const json told = environment();
  EXPECT_GE(told["cpu"]["logical"], 1);
  EXPECT_GE(told["clock"]["resolution_ns"], 1);
  EXPECT_FALSE(told["host"].get<std::string>().empty());
}

TEST(SystemFiles, read_lists_of_processors) {
  EXPECT_THAT(cpu_list("0-2,8"), ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(cpu_list(""), ElementsAre());
  EXPECT_THAT(cpu_list("x,3,-,5-"), ElementsAre(3));
  EXPECT_THAT(cpu_list("0-99999999"), ElementsAre());
  EXPECT_EQ(size_of("1024K"), 1 << 20);
  EXPECT_EQ(size_of("2M"), 2 << 20);
  EXPECT_FALSE(size_of("big"));
}

}  // namespace
}  // namespace assay
