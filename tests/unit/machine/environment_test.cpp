#include "harness/machine/environment.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/machine/hardware_info.hpp"
#include "harness/machine/memory.hpp"
#include "harness/machine/system_files.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A root folder with what a machine of two cores with two threads each would tell.
class Machine : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("assay-machine-" + std::to_string(::getpid()));
    write(
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: Somebody\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: A processor\n"
        "stepping\t: 1\nflags\t\t: sse4_2 avx2 fpu "
        "hypervisor\n");
    write("proc/meminfo", "MemTotal:       16 kB\nMemAvailable:   8 kB\nSwapTotal:      4 kB\n");
    write("proc/loadavg", "1.50 0.75 0.25 1/2 3\n");
    write("etc/os-release", "NAME=Linux\nPRETTY_NAME=\"A Linux 1.0\"\n");
    write("sys/fs/cgroup/cpu.max", "150000 100000\n");
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write("proc/sys/kernel/randomize_va_space", "1\n");
    write("sys/devices/system/cpu/smt/control", "on\n");
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    ::setenv("HWLOC_SYNTHETIC", "pack:2 numa:1 l3:1(size=8388608) core:2 l1d:1(size=32768) pu:2", 1);
  }
  void TearDown() override {
    fs::remove_all(root_);
    ::unsetenv("HWLOC_SYNTHETIC");
  }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  fs::path root_;
};

TEST_F(Machine, HasTheMemoryThatIsAvailableToItsControlGroup) {
  EXPECT_EQ(available_memory(root_), 8 << 10);
  write("sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(available_memory(root_), 4096);
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(available_memory(root_), 8 << 10);
  fs::remove(root_ / "proc/meminfo");
  EXPECT_EQ(available_memory(root_), std::nullopt);
}

TEST_F(Machine, is_described_by_its_files) {
  const json told = encode(environment(root_));
  EXPECT_EQ(told["os"], "A Linux 1.0");
  EXPECT_EQ(told["cpu"]["model"], "A processor");
  EXPECT_EQ(told["cpu"]["vendor"], "Somebody");
  EXPECT_EQ(told["cpu"]["family"], "25");
  EXPECT_EQ(told["cpu"]["model_number"], "17");
  EXPECT_EQ(told["cpu"]["stepping"], "1");
  EXPECT_GT(told["cpu"]["loop_seconds"], 0);
  EXPECT_EQ(told["cpu"]["logical"], 8);
  EXPECT_EQ(told["cpu"]["cores"], 4);
  EXPECT_EQ(told["cpu"]["sockets"], 2);
  EXPECT_EQ(told["cpu"]["numa_nodes"], 2);
  EXPECT_EQ(told["cpu"]["threads_per_core"], 2);
  EXPECT_EQ(told["cpu"]["smt"], "on");
  EXPECT_EQ(told["address_randomisation"], "partial");
  EXPECT_EQ(told["cpu"]["instruction_sets"], json({"sse4_2", "avx2"}));
  ASSERT_EQ(told["cpu"]["caches"].size(), 2U) << told["cpu"]["caches"];
  const json &first = told["cpu"]["caches"][0], &last = told["cpu"]["caches"][1];
  EXPECT_EQ(first["level"], 1);
  EXPECT_EQ(first["type"], "Data");
  EXPECT_EQ(first["bytes"], 32768);
  EXPECT_EQ(first["count"], 4);
  EXPECT_EQ(first["shared_by"], 2);
  EXPECT_EQ(last["level"], 3);
  EXPECT_EQ(last["count"], 2);
  EXPECT_EQ(last["shared_by"], 4);
  EXPECT_EQ(told["memory"]["total"], 16384);
  EXPECT_EQ(told["memory"]["huge_pages"], "madvise");
  EXPECT_EQ(told["virtualised"], true);
  EXPECT_EQ(told["control_group"]["cpu_quota"], 1.5);
  EXPECT_EQ(told["load_average"][0], 1.5);
}

TEST_F(Machine, lists_causes_of_noise_with_remedies) {
  const json told = encode(environment(root_));
  std::string all;
  for (const json& cause : told["unsteady"]) {
    all += cause["what"].get<std::string>() + "\n";
    EXPECT_FALSE(cause["remedy"].get<std::string>().empty());
  }
  for (const char* what : {"governor is powersave", "hypervisor", "2 hardware threads", "load was 1.50",
                           "1.50 cores", "swapped"})
    EXPECT_THAT(all, HasSubstr(what));
}

TEST_F(Machine, NamesAnUnusualScheduling) {
  const pid_t child = ::fork();
  if (child == 0) {
    const sched_param none{};
    unsigned long first_node = 1;
    const bool is_set = ::setpriority(PRIO_PROCESS, 0, 19) == 0 &&
                        ::sched_setscheduler(0, SCHED_BATCH, &none) == 0 &&
                        ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0;
    const bool is_bound = ::syscall(SYS_set_mempolicy, MPOL_BIND, &first_node, 8 * sizeof first_node) == 0;
    const std::string wanted = std::string("policy batch, nice 19, ") +
                               (is_bound ? "memory bound to nodes, " : "") + "no huge pages";
    const json told = encode(environment(root_));
    const bool is_named = told["scheduling"] == wanted && told["unsteady"].dump().find(wanted) != wanted.npos;
    ::_exit(!is_set ? 2 : is_named ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this process may not change its scheduling";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Machine, without_information_is_null) {
  fs::remove_all(root_);
  const json told = encode(environment(root_));
  EXPECT_TRUE(told["os"].is_null());
  EXPECT_TRUE(told["cpu"]["model"].is_null());
  EXPECT_TRUE(told["cpu"]["smt"].is_null());
  EXPECT_TRUE(told["address_randomisation"].is_null() || told["address_randomisation"] == "off");
  EXPECT_TRUE(told["control_group"]["version"].is_null());
  EXPECT_TRUE(told["control_group"]["cpu_quota"].is_null());
  EXPECT_TRUE(told["memory"]["total"].is_null());
  EXPECT_TRUE(told["virtualised"].is_null());
}

TEST_F(Machine, has_the_tightest_limit_of_its_control_groups_version_2) {
  write("proc/self/cgroup", "0::/slice/inner\n");
  write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/slice/cpu.max", "200000 100000\n");
  write("sys/fs/cgroup/slice/memory.max", "1048576\n");
  write("sys/fs/cgroup/slice/inner/cpu.max", "400000 100000\n");
  write("sys/fs/cgroup/slice/inner/memory.max", "max\n");
  EXPECT_EQ(encode(control_group_limits(root_)),
            json({{"version", 2}, {"cpu_quota", 2.0}, {"memory_limit", 1048576}}));
}

TEST_F(Machine, has_limits_of_control_groups_version_1) {
  fs::remove_all(root_ / "sys/fs/cgroup");
  write("proc/self/cgroup", "5:cpuacct,cpu:/docker/abc\n4:memory:/docker/abc\n");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  // In a container the path is the host's and the limits stand at the top of the mount.
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2097152\n");
  EXPECT_EQ(encode(control_group_limits(root_)),
            json({{"version", 1}, {"cpu_quota", 0.5}, {"memory_limit", 2097152}}));
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(encode(control_group_limits(root_)),
            json({{"version", 1}, {"cpu_quota", nullptr}, {"memory_limit", nullptr}}));
}

TEST_F(Machine, HasLimitsOfBothVersionsSideBySide) {
  fs::remove_all(root_ / "sys/fs/cgroup");
  write("proc/self/cgroup", "4:memory:/box\n0::/box\n");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "4096\n");
  write("sys/fs/cgroup/unified/cgroup.controllers", "cpu\n");
  write("sys/fs/cgroup/unified/box/cpu.max", "50000 100000\n");
  write("sys/fs/cgroup/unified/box/cpu.stat", "nr_throttled 2\nthrottled_usec 3\n");
  EXPECT_EQ(encode(control_group_limits(root_)),
            json({{"version", 1}, {"cpu_quota", 0.5}, {"memory_limit", 4096}}));
  ASSERT_TRUE(quota_stops("self", root_));
  EXPECT_EQ(quota_stops("self", root_)->ns, 3000);
}

TEST_F(Machine, FindsControlGroupsWhereverTheyAreMounted) {
  fs::remove_all(root_ / "sys/fs/cgroup");
  write("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc/job\n0::/box\n");
  write("proc/self/mountinfo",
        "30 24 0:26 / /sys/fs/cgroup rw shared:8 - tmpfs tmpfs rw\n"
        "31 30 0:27 /docker/abc /host\\040groups/cpu,cpuacct ro master:9 - cgroup cgroup rw,cpu,cpuacct\n"
        "32 30 0:28 / /elsewhere rw - cgroup2 none rw\n");
  write("host groups/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n");
  write("host groups/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("host groups/cpu,cpuacct/job/cpu.stat", "nr_throttled 3\nthrottled_time 700\n");
  write("elsewhere/box/memory.max", "4096\n");
  EXPECT_EQ(encode(control_group_limits(root_)),
            json({{"version", 1}, {"cpu_quota", 0.5}, {"memory_limit", 4096}}));
  ASSERT_TRUE(quota_stops("self", root_));
  EXPECT_EQ(quota_stops("self", root_)->ns, 700);
}

TEST_F(Machine, DoesNotLeaveItsControlGroups) {
  fs::remove_all(root_ / "sys/fs/cgroup");
  write("proc/self/cgroup", "0::/../../outside\n");  // the process is above the root of its namespace
  write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  write("sys/outside/cpu.max", "1000 100000\n");
  EXPECT_EQ(control_group_limits(root_).cpu_quota, 2.0);
}

TEST_F(Machine, CountsTheStopsOfAQuotaInBothVersions) {
  write("proc/77/cgroup", "0::/slice/inner\n");
  write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  write("sys/fs/cgroup/slice/cpu.stat", "usage_usec 9\nnr_periods 5\nnr_throttled 2\nthrottled_usec 30\n");
  write("sys/fs/cgroup/slice/inner/cpu.stat",
        "usage_usec 9\nnr_periods 5\nnr_throttled 1\nthrottled_usec 4\n");
  const auto stops = quota_stops("77", root_);
  ASSERT_TRUE(stops);
  EXPECT_EQ(stops->count, 3);
  EXPECT_EQ(stops->ns, 34'000);
  fs::remove_all(root_ / "sys/fs/cgroup");
  EXPECT_FALSE(quota_stops("77", root_));
  write("proc/77/cgroup", "5:cpuacct,cpu:/docker/abc\n");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.stat", "nr_periods 5\nnr_throttled 3\nthrottled_time 700\n");
  ASSERT_TRUE(quota_stops("77", root_));
  EXPECT_EQ(quota_stops("77", root_)->ns, 700);
}

TEST(Threads, AreAtMostTheQuotaRoundedUp) {
  EXPECT_EQ(threads_within(8, {}), 8);
  EXPECT_EQ(threads_within(8, 0.5), 1);
  EXPECT_EQ(threads_within(8, 2.0), 2);
  EXPECT_EQ(threads_within(8, 2.1), 3);
  EXPECT_EQ(threads_within(2, 16.0), 2);
}

TEST(Threads, ThatAreTooManyAreNamedWithTheQuota) {
  EXPECT_EQ(overload_text(2, 2, {}), "");
  EXPECT_EQ(overload_text(1, 2, 0.5), "");
  EXPECT_THAT(overload_text(2, 2, 0.5), HasSubstr("a CPU quota of 0.5 processors"));
  EXPECT_THAT(overload_text(2, 2, 0.5), HasSubstr("--threads 1"));
  EXPECT_THAT(overload_text(4, 2, 0.5), HasSubstr("4 threads share 2 processors"));
}

TEST_F(Machine, knows_the_core_of_each_logical_cpu) {
  const auto cores = cores_of_cpus();
  ASSERT_EQ(cores.size(), 8U);
  EXPECT_EQ(cores.at(0), cores.at(1));
  EXPECT_NE(cores.at(1), cores.at(2));
}

TEST(Environment, HasAModelAndAClock) {
  const json told = encode(environment());
  EXPECT_GE(told["cpu"]["logical"], 1);
  EXPECT_GE(told["clock"]["resolution_ns"], 1);
  EXPECT_FALSE(told["host"].get<std::string>().empty());
}

TEST(Environment, KnowsTheCacheOfAGpuByItsModel) {
  const auto with = [](std::optional<std::string> model) {
    MachineRecord machine;
    machine.gpus = std::vector<GpuRecord>{{.model = std::move(model)}, {.model = "NVIDIA B200"}};
    return machine;
  };
  EXPECT_EQ(gpu_cache(with("NVIDIA H100 80GB HBM3")), 52428800);
  EXPECT_EQ(gpu_cache(with("NVIDIA GeForce RTX 4090")), 75497472);
  constexpr std::int64_t largest = 132644864;
  EXPECT_EQ(gpu_cache(with("a GPU of tomorrow")), largest);
  EXPECT_EQ(gpu_cache(with(std::nullopt)), largest);
  EXPECT_EQ(gpu_cache({.gpus = std::vector<GpuRecord>()}), largest);
  EXPECT_EQ(gpu_cache({}), largest);
}

TEST(Environment, TakesTheCacheOfTheFirstGpuThatIsVisible) {
  MachineRecord machine;
  machine.gpus = std::vector<GpuRecord>{{.model = "NVIDIA A100", .uuid = "GPU-0a"},
                                        {.model = "NVIDIA GeForce RTX 4090", .uuid = "GPU-1b"}};
  const auto with = [&](const char* devices) {
    ::setenv("CUDA_VISIBLE_DEVICES", devices, 1);
    const std::int64_t cache = gpu_cache(machine);
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    return cache;
  };
  EXPECT_EQ(with("0"), 41943040);
  EXPECT_EQ(with("1,0"), 75497472);
  EXPECT_EQ(with("GPU-1"), 75497472);
  EXPECT_EQ(with("-1"), 132644864) << "none is visible";
}

TEST(Environment, AsksForEveryField) {
  const auto fields_of = [](const Description& description) { return description.list.size(); };
  const MachineRecord machine = environment();
  constexpr std::size_t only_in_reports = 3;  // of the rooflines
  EXPECT_EQ(encode(machine).size(), fields_of(describe(Of<MachineRecord>{})) - only_in_reports);
  EXPECT_EQ(encode(machine.cpu).size(), fields_of(describe(Of<ProcessorRecord>{})));
  EXPECT_EQ(encode(machine.memory).size(), fields_of(describe(Of<MemoryRecord>{})));
  EXPECT_EQ(encode(machine.control_group).size(), fields_of(describe(Of<ControlGroupRecord>{})));
  EXPECT_EQ(encode(machine.clock).size(), fields_of(describe(Of<ClockRecord>{})));
  EXPECT_EQ(decoded<MachineRecord>(encode(machine)), machine);
}

TEST(Session, lists_the_variables_of_frameworks_and_no_secret) {
  for (const char* name :
       {"OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_XLA_FLAGS", "TORCHINDUCTOR_CACHE_DIR", "LD_PRELOAD",
        "PYTHONPATH", "ATEN_CPU_CAPABILITY", "OPENBLAS_CORETYPE"}) {
    EXPECT_TRUE(affects_speed(name)) << name;
  }
  for (const char* name :
       {"HOME", "TF_VAR_password", "TF_TOKEN_example_org", "TF_CLI_ARGS", "NVIDIA_API_KEY"}) {
    EXPECT_FALSE(affects_speed(name)) << name;
  }
  EXPECT_FALSE(may_be_listed("TF_CLI_CONFIG_FILE"));
  EXPECT_TRUE(may_be_listed("threads"));
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

TEST(SystemFiles, HaveTheBytesThatLoopbackSent) {
  const std::string head = "Inter-|   Receive  |  Transmit\n face |bytes packets |bytes packets\n";
  const TemporaryFolder root;
  const auto with = [&](const std::string& line) {
    std::filesystem::create_directories(root.path() / "proc/net");
    std::ofstream(root.path() / "proc/net/dev") << head << line;
    return loopback_bytes(root.path());
  };
  EXPECT_FALSE(loopback_bytes(root.path()));
  EXPECT_EQ(with("  eth0: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n    lo: 58 3 0 0 0 0 0 0 61 4 0 0 0 0 0 0\n"), 61);
  EXPECT_FALSE(with("    lo: 58 3 0 0\n"));
  EXPECT_FALSE(with("  eth0: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n"));
}

}  // namespace
}  // namespace assay
