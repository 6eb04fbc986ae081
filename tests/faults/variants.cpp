#include "tests/faults/variants.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/landlock.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include "harness/core/clock.hpp"
#include "harness/core/io/safetensors.hpp"
#include "tests/faults/zero_answers.hpp"

namespace assay::faults {
namespace {

namespace fs = std::filesystem;
using protocol::ErrorKind;
using enum Moment;
using enum Trial;

constexpr std::int64_t far = std::int64_t{1} << 62;

// By the signal itself: a sanitizer's handler would turn it into an exit code.
[[noreturn]] void die_of(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::abort();
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

void say_where(int) { [[maybe_unused]] const ssize_t said = ::write(2, "in pause()\n", 11); }

void refuse(Worker& worker, ErrorKind kind, const std::string& reason) {
  worker.send(protocol::Error{kind, reason});
}

// What a terminal, a CI server or a page must not get.
const std::string evil =
    "\x1b[31mowned\n::error::owned\xc2\x9b"
    "31m";

// Starts a process in its own session, whose parent ends at once.
void leave_behind(Worker& worker) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  if (::fork() == 0) {
    ::setsid();
    const pid_t left = ::fork();
    if (left != 0) {
      [[maybe_unused]] const ssize_t told = ::write(ends[1], &left, sizeof left);
      ::_exit(0);
    }
    ::close_range(0, ~0U, 0);
    hang();
  }
  [[maybe_unused]] const ssize_t told = ::read(ends[0], &worker.left, sizeof worker.left);
}

// Starts processes in the worker's group that hold its descriptors.
void leave_children(int count) {
  for (int i = 0; i < count; ++i)
    if (::fork() == 0) hang();
}

// Two children that hold 64 MiB each at the same time, for as long as a few samples take.
void fork_twice() {
  for (int i = 0; i < 2; ++i) {
    if (::fork() != 0) continue;
    std::string held(64 << 20, 'x');
    ::usleep(1'200'000);
    ::_exit(held.back() == 'x' ? 0 : 1);
  }
  while (::wait(nullptr) > 0) {
  }
}

void flood() {
  const std::string line(1000, 'x');
  for (int i = 0; i < 20'000; ++i) std::cerr << line << '\n';
}

// This thread may then run on every processor.
void wander() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
  ::sched_setaffinity(0, sizeof all, &all);
}

// Two threads compute on one processor of two.
void huddle() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
  for (int i = 0; i < 2; ++i)
    std::thread([one] {
      ::sched_setaffinity(0, sizeof one, &one);
      for (volatile bool on = true; on;) {
      }
    }).detach();
}

// As far as it is permitted.
void remove_own_files() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::current_path())) fs::remove_all(entry.path(), ignored);
}

std::size_t files_of(const fs::path& folder, const std::string& kind) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(kind)) ++count;
  return count;
}

// When both workers are done with it.
void remove_meeting(const fs::path& folder) {
  std::error_code ignored;
  std::ofstream(folder / ("left-" + std::to_string(::getpid()))).flush();
  if (files_of(folder, "left-") == 2) fs::remove_all(folder, ignored);
}

// Waits until the checks of two cells run at the same time; with `wants_room` it fails until it is the only one.
void meet(Worker& worker, bool wants_room) {
  // Workers of one program share no folder but those of the machine.
  const fs::path folder = "/dev/shm/assay_meeting_" + std::to_string(::getppid());
  const std::string own = std::to_string(worker.request.at("batch").get<int>());
  fs::create_directories(folder);
  const bool again = fs::exists(folder / ("came-" + own));
  std::ofstream(folder / ("came-" + own)).flush();
  std::ofstream(folder / ("here-" + own)).flush();
  for (int i = 0; i < 6000 && files_of(folder, "came-") < 2; ++i) ::usleep(10'000);
  const bool met = files_of(folder, "came-") == 2, alone = files_of(folder, "here-") == 1;
  fs::remove(folder / ("here-" + own));
  if (wants_room ? again : met) remove_meeting(folder);
  if (!met) refuse(worker, ErrorKind::failed, "nobody came");
  if (wants_room && !again) refuse(worker, ErrorKind::out_of_memory, "two are too many");
  refuse(worker, ErrorKind::unsupported, again && alone ? "alone at last" : "two were here");
}

Deed at(Moment moment, void (*act)(Worker&)) { return {moment, act}; }

// A change of one value of the clock file.
Deed lie(void (*change)(Json& clock)) {
  return {clock, [change](Worker& worker) { change(worker.clock); }};
}
// The same of the second block, the first that is timed.
Deed block_lie(const char* key, const Json& value) {
  return {clock, [=](Worker& worker) { worker.clock["blocks"][1][key] = value; }};
}

// Something else in the place of the clock file.
Deed clock_file(void (*put)(const char* path)) {
  return {clock, [put](Worker& worker) {
            put("results/clock.json");
            worker.clock = nullptr;
          }};
}

// Something else in the place of the exam's answers.
Deed answers(void (*put)(const char* path)) {
  return {verify, [put](Worker& worker) {
            put("results/verify.safetensors");
            worker.answers = true;
          }};
}

Deed line(Moment moment, const std::string& text) {
  return {moment, [text](Worker& worker) { worker.send_raw(text); }};
}

// Blocks a tenth as long as they were, and a record of other processes that used its processor all the time.
void claim_others(Worker& worker) {
  worker.clock = busy_clock(worker.request);
  for (Json& block : worker.clock["blocks"]) {
    block["end_ns"] = block["begin_ns"].get<std::int64_t>() + 10'000'000;
    block["cpu_ns"] = 10'000'000;
  }
  worker.clock["disturbance"] = {{"processors", 1},
                                 {"window_ns", 300'000'000},
                                 {"own_ns", 0},
                                 {"others_ns", 300'000'000},
                                 {"steal_ns", 0}};
}

void write_nothing(const char*) {}
void write_fifo(const char* path) {
  if (::mkfifo(path, 0600) != 0) std::abort();
}
void write_endless(const char* path) { fs::create_symlink("/dev/zero", path); }
void write_link(const char* path) { fs::create_symlink("/proc/self/environ", path); }
void write_folder(const char* path) { fs::create_directory(path); }
void write_text(const char* path, const std::string& text) { std::ofstream(path) << text; }

// Lets a child go on as the worker, and ends.
void go_on_in_a_child() {
  if (::fork() != 0) ::_exit(0);
}

// Starts a process in its own session, whose parent ends at once, and which holds 128 MiB and may run on every processor.
void work_in_an_orphan(Worker& worker) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t between = ::fork();
  if (between != 0) {
    ::close(ends[1]);
    [[maybe_unused]] const ssize_t told = ::read(ends[0], &worker.left, sizeof worker.left);
    ::waitpid(between, nullptr, 0);
    return;
  }
  if (::fork() != 0) ::_exit(0);
  ::setsid();
  ::clearenv();
  wander();
  const std::string held(128 << 20, 'x');
  const pid_t own = ::getpid();
  [[maybe_unused]] const ssize_t told = ::write(ends[1], &own, sizeof own);
  ::close_range(0, ~0U, 0);
  for (int i = 0; i < 600 && held.back() == 'x'; ++i) ::usleep(100'000);
  ::_exit(0);
}

// A process that starts another one in a new session and ends, and so on without pause, for a minute at most.
void fork_without_end() {
  if (::fork() != 0) return;
  ::close_range(0, ~0U, 0);
  const std::int64_t until = now_ns() + 60'000'000'000;
  while (now_ns() < until) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
  }
  ::_exit(0);
}

// Whether this kernel can keep a worker's signals to itself.
bool signals_are_confined() {
  constexpr long version_with_signals = 6;
  return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) >=
         version_with_signals;
}

void attack_the_conductor(int signal) {
  if (signals_are_confined()) ::kill(::getppid(), signal);
}

// Whether a file can be opened for writing, or made. Writes nothing.
bool can_write(const fs::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const int made = ::open((path.string() + ".forged").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  for (const int one : {file, made})
    if (one >= 0) ::close(one);
  return file >= 0 || made >= 0;
}

// Refuses to work if it can change a report next to the temporary folder of the run, or its own description.
void forge(Worker& worker) {
  if (!signals_are_confined()) return;
  const fs::path scratch = fs::path(std::getenv("TMPDIR")).parent_path();
  const fs::path own = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& path :
       {scratch.parent_path().parent_path() / "report.json", own / "backends/fault/backend.json"})
    if (can_write(path)) refuse(worker, ErrorKind::failed, "could write " + path.string());
}

// Refuses to work next to files of another fork, and leaves a file.
void litter(Worker& worker) {
  const fs::path folder = std::getenv("TMPDIR");
  if (!fs::is_empty(folder)) refuse(worker, ErrorKind::failed, "TMPDIR has files of another fork");
  write_text((folder / "file").c_str(), "x");
}

// Leaves 64 MiB in the temporary folder, or what there is room for.
void fill() {
  std::ofstream file(fs::path(std::getenv("TMPDIR")) / "filled", std::ios::binary);
  const std::string part(1 << 20, 'x');
  for (int i = 0; i < 64 && file.write(part.data(), static_cast<std::streamsize>(part.size())); ++i) {
  }
}

// Files and folders that are hard to remove: an immutable file, if that is permitted, and a folder without permissions.
void leave_what_stays() {
  for (const char* path : {"results/immutable", "results/closed/file"}) {
    fs::create_directories(fs::path(path).parent_path());
    write_text(path, "x");
  }
  const int file = ::open("results/immutable", O_RDONLY | O_CLOEXEC);
  int flags = FS_IMMUTABLE_FL;
  [[maybe_unused]] const int ignored = ::ioctl(file, FS_IOC_SETFLAGS, &flags);
  ::close(file);
  fs::permissions("results/closed", fs::perms::none);
}

void append(const char* path) { std::ofstream(path, std::ios::app) << ' '; }

// The right answers, if those of the oracle are zeros, too.
void answer_with_zeros(Worker& worker) {
  write_safetensors("results/verify.safetensors", zero_answers());
  worker.answers = true;
}

// A safetensors file that declares a header of that length.
void write_header(const char* path, std::uint64_t length, const std::string& header) {
  std::ofstream file(path);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header;
}

Json evaluation(const char* split, double accuracy) {
  return Json::array({{{"epoch", 0},
                       {"split", split},
                       {"samples", 1},
                       {"loss", 1.0},
                       {"accuracy", accuracy},
                       {"seconds", 1.0}}});
}

// With two threads it reports hardly any progress, while more threads spin than there are processors.
void starve(Worker& worker) {
  if (worker.request.at("threads") == 1) return;
  for (int i = 0; i < 8; ++i)
    std::thread([] {
      for (volatile bool on = true; on;) {
      }
    }).detach();
  for (;;) {
    worker.send(protocol::Progress{10, 1'000'000});
    ::usleep(200'000);
  }
}

constexpr const char* verified_file = "verify.safetensors";
constexpr const char* clock_name = "clock.json";

// clang-format off
const Variant table[] = {
    // They behave, or do more than their own cell shows: for tests.
    {"good", none, "ok", "", {}},
    {"other", none, "ok", "", {}},
    {"heavier", none, "ok", "", at(run, [](Worker& w) { w.clock = declared_clock(w.request, 1.2); })},
    {"hangs_in_round_2", none, "ok", "", at(run, [](Worker& w) { if (w.request.at("seed") == 2) hang(); })},
    {"starves", none, "ok", "", at(run, starve)},
    {"sleeps", none, "ok", "", at(run, [](Worker& w) { w.clock = slept_clock(); })},
    {"busy", none, "ok", "", at(run, [](Worker& w) { w.clock = busy_clock(w.request); })},
    {"compiles_nothing", none, "failed", "compiled nothing", at(hello, [](Worker& w) { w.hello.settings["compiled_graphs"] = "0"; })},
    {"interprets", none, "ok", "", at(hello, [](Worker& w) { w.hello.settings["compiled_graphs"] = "0"; })},
    {"claims_others", none, "failed", "cover", at(run, claim_others)},
    {"compiles_longer", none, "ok", "", at(compile, [](Worker&) { ::usleep(1'200'000); })},
    {"exchanges_too_long", none, "ok", "", at(compile, [](Worker& w) { w.exchanged.bare_seconds[1] = 1000; })},
    {"exchanges_in_no_time", none, "ok", "", at(compile, [](Worker& w) { w.exchanged.local_seconds[0] = 0; })},
    {"exchanges_in_other_rounds", none, "ok", "", at(compile, [](Worker& w) { w.exchanged.step_seconds.pop_back(); })},
    {"exchanges_without_a_word", none, "ok", "", at(compile, [](Worker& w) { w.exchanged = {}; })},
    {"device_too_long", none, "ok", "", at(compile, [](Worker& w) { w.device_timed.step_seconds[1] = 1; })},
    {"device_in_no_time", none, "ok", "", at(compile, [](Worker& w) { w.device_timed.step_seconds[1] = 0; })},
    {"device_without_a_word", none, "ok", "", at(compile, [](Worker& w) { w.device_timed = {}; })},
    {"device_with_a_reason", none, "ok", "", at(verify, [](Worker& w) { answer_with_zeros(w); w.device_timed = {.reason = "[time_device] why"}; })},
    {"zeros", none, "ok", "", at(verify, answer_with_zeros)},
    {"rewrites_a_plan", none, "failed", "0001.plan.npy", at(verify, [](Worker& w) { answer_with_zeros(w); append("epochs/0001.plan.npy"); })},
    {"rewrites_operands", none, "failed", "inputs.npy", at(verify, [](Worker& w) { answer_with_zeros(w); append("data/inputs.npy"); })},
    {"huddles", none, "failed", "", at(run, [](Worker& w) { huddle(); w.clock = slept_clock(); })},
    {"meets", none, "unsupported", "", at(compile, [](Worker& w) { meet(w, false); })},
    {"wants_room", none, "unsupported", "", at(compile, [](Worker& w) { meet(w, true); })},
    {"no_gpu", none, "unavailable", "", at(compile, [](Worker& w) {
       if (w.request.at("device") == "cuda") refuse(w, ErrorKind::unavailable, "no GPU can be used"); })},

    // They end, or do not.
    {"crash", usual, "crashed", "SIGSEGV", at(run, [](Worker&) { std::cerr << "about to fall\n"; die_of(SIGSEGV); })},
    {"crash_at_hello", usual, "crashed", "SIGSEGV", at(hello, [](Worker&) { die_of(SIGSEGV); })},
    {"crash_at_bye", usual, "crashed", "SIGSEGV", at(bye, [](Worker&) { die_of(SIGSEGV); })},
    {"crash_once", usual, "crashed", "of 2 forks crashed", at(run, [](Worker& w) { if (w.request.at("seed") == 2) die_of(SIGSEGV); })},
    {"aborts", usual, "crashed", "SIGABRT", at(run, [](Worker&) { die_of(SIGABRT); })},
    {"killed", usual, "crashed", "SIGKILL", at(run, [](Worker&) { std::raise(SIGKILL); })},
    {"kills_its_group", usual, "crashed", "SIGKILL", at(run, [](Worker&) { ::kill(0, SIGKILL); })},
    {"exits", usual, "failed", "no such luck", at(run, [](Worker&) { std::cerr << "RuntimeError: no such luck\n"; std::exit(3); })},
    {"exits_at_hello", usual, "failed", "code 3", at(hello, [](Worker&) { std::exit(3); })},
    {"fails_at_bye", usual, "failed", "while it quit", at(bye, [](Worker& w) { w.send(protocol::Bye{}); std::exit(1); })},
    {"hang", limited, "timed_out", "2 s", at(run, [](Worker&) { std::signal(SIGTERM, SIG_IGN); hang(); })},
    {"hang_at_hello", limited, "timed_out", "2 s", at(hello, [](Worker&) { hang(); })},
    {"hang_at_compile", limited, "timed_out", "2 s", at(compile, [](Worker&) { hang(); })},
    {"hang_at_bye", usual, "timed_out", "did not end", at(bye, [](Worker&) { hang(); })},
    {"spins", limited, "timed_out", "2 s", at(run, [](Worker&) { for (volatile bool on = true; on;) {} })},
    {"prints_its_stack", limited, "timed_out", "2 s", at(run, [](Worker&) { std::signal(SIGUSR1, say_where); hang(); })},
    {"stops", limited, "timed_out", "2 s", at(run, [](Worker&) { std::raise(SIGSTOP); })},
    {"slow", usual, "ok", "", at(run, [](Worker&) { ::usleep(300'000); })},

    // They break the protocol.
    {"deaf", limited, "failed", "closed its channel", at(hello, [](Worker&) { ::close(3); ::close(4); hang(); })},
    {"deaf_at_run", limited, "failed", "closed its channel", at(run, [](Worker&) { ::close(3); ::close(4); hang(); })},
    {"half_line", usual, "failed", "in the middle of the line", at(run, [](Worker& w) { w.send_raw("{\"event\": \"ra"); std::_Exit(1); })},
    {"garbage", usual, "failed", "Traceback", line(run, "Traceback (most recent call last):\n")},
    {"binary", usual, "failed", "", line(run, std::string("\0\x01\xff\xfe\x1b[2J\n", 9))},
    {"bad_json", usual, "failed", "", line(run, "{\"event\": \"ran\", }\n")},
    {"deep_line", usual, "failed", "", line(run, std::string(900'000, '[') + "\n")},
    {"long_line", usual, "failed", "without a newline", line(run, std::string(protocol::max_line_bytes + 100'000, 'y'))},
    {"wrong_event", usual, "failed", "verified", at(run, [](Worker& w) { w.send(protocol::Verified{}); })},
    {"answers_twice", checked, "failed", "after its last answer", at(verify, [](Worker& w) { w.send(protocol::Verified{}); })},
    {"says_bye_twice", usual, "failed", "after its last answer", at(bye, [](Worker& w) { w.send(protocol::Bye{}); })},
    {"doubled_key", usual, "failed", "duplicate key", line(run, "{\"event\": \"ran\", \"event\": \"ran\"}\n")},
    {"chatty", limited, "timed_out", "2 s", at(run, [](Worker& w) { for (;;) w.send(protocol::Progress{1, 2}); })},
    {"old_protocol", usual, "failed", "protocol", at(hello, [](Worker& w) { w.hello.protocol = 0; })},
    {"impostor", usual, "failed", "somebody", at(hello, [](Worker& w) { w.hello.backend = "somebody"; })},
    {"negative_compile", usual, "failed", "compile", at(compile, [](Worker& w) { w.send(protocol::Compiled{-1}); })},
    {"long_compile", usual, "failed", "answered after", at(compile, [](Worker& w) { w.compile_seconds = 1000; })},
    {"negative_memory", usual, "failed", "", line(compile, "{\"event\": \"compiled\", \"seconds\": 1, \"memory\": {\"a\": -1}}\n")},
    {"negative_operator", usual, "failed", "", line(run, "{\"event\": \"ran\", \"operators\": [{\"node\": \"a\", \"seconds\": -1, \"calls\": 1}]}\n")},

    // They report an error.
    {"unsupported", usual, "unsupported", "stride 3", at(compile, [](Worker& w) { refuse(w, ErrorKind::unsupported, "[convolution] stride 3 has no kernel here"); })},
    {"out_of_memory", usual, "out_of_memory", "2 GiB", at(compile, [](Worker& w) { refuse(w, ErrorKind::out_of_memory, "the device has 2 GiB"); })},
    {"bad_alloc", usual, "out_of_memory", "", at(compile, [](Worker&) { throw std::bad_alloc(); })},
    {"evil_hello", usual, "failed", "owned", at(hello, [](Worker& w) { refuse(w, ErrorKind::failed, evil); })},
    {"evil_error", usual, "failed", "owned", at(compile, [](Worker& w) { refuse(w, ErrorKind::failed, evil); })},
    {"evil_answer", checked, "failed", "owned", at(verify, [](Worker& w) { refuse(w, ErrorKind::failed, evil); })},
    {"evil_name", usual, "failed", "owned", at(hello, [](Worker& w) { w.hello.backend = evil; })},
    {"evil_log", usual, "failed", "owned", at(run, [](Worker&) { std::cerr << evil << std::endl; std::exit(3); })},
    {"evil_event", usual, "failed", "owned", line(run, evil + "\n")},
    {"evil_setting", usual, "ok", "", at(hello, [](Worker& w) { w.hello.version_of_backend = evil; w.hello.settings[evil] = evil; })},

    // Their clock files contradict themselves, the plan or the clock.
    {"early_clock", usual, "failed", "before the conductor sent", lie([](Json& c) { c["blocks"][0]["begin_ns"] = 1; })},
    {"late_clock", usual, "failed", "after the worker reported", lie([](Json& c) { c["blocks"].back()["end_ns"] = c["blocks"].back()["end_ns"].get<std::int64_t>() + 60'000'000'000; })},
    {"far_clock", usual, "failed", clock_name, lie([](Json& c) { c["blocks"].back()["begin_ns"] = far; c["blocks"].back()["end_ns"] = far + 1000; })},
    {"endless_block", usual, "failed", clock_name, lie([](Json& c) { c["blocks"][0]["begin_ns"] = -far; c["blocks"][0]["end_ns"] = far; })},
    {"negative_times", usual, "failed", clock_name, lie([](Json& c) { c["blocks"][0]["begin_ns"] = -9; c["blocks"][0]["end_ns"] = -5; })},
    {"reversed", usual, "failed", clock_name, lie([](Json& c) { c["blocks"][1]["begin_ns"].swap(c["blocks"][1]["end_ns"]); })},
    {"overlap", usual, "failed", clock_name, lie([](Json& c) { c["blocks"][1]["begin_ns"] = c["blocks"][0]["begin_ns"]; })},
    {"no_length", usual, "failed", clock_name, lie([](Json& c) { c["blocks"][1]["end_ns"] = c["blocks"][1]["begin_ns"]; })},
    {"a_tenth", usual, "failed", clock_name, at(run, [](Worker& w) { w.clock = busy_clock(w.request); for (Json& b : w.clock["blocks"]) b["end_ns"] = b["begin_ns"].get<std::int64_t>() + 10'000'000; })},
    {"hidden_cpu", usual, "failed", "processor time", at(run, [](Worker& w) { w.clock = hidden_clock(w.request); })},
    {"much_cpu", usual, "failed", "processor time", block_lie("cpu_ns", 1'000'000'000'000)},
    {"thrice", usual, "failed", clock_name, lie([](Json& c) { c["blocks"].insert(c["blocks"].end(), 2, Json(c["blocks"].back())); })},
    {"no_steps", usual, "failed", clock_name, block_lie("steps", 0)},
    {"negative_steps", usual, "failed", clock_name, block_lie("steps", -5)},
    {"huge_steps", usual, "failed", "steps in", block_lie("steps", far)},
    {"other_kind", usual, "failed", clock_name, block_lie("kind", "tepid")},
    {"long_wait", usual, "failed", clock_name, block_lie("wait_ns", 1'000'000'000'000)},
    {"negative_wait", usual, "failed", clock_name, block_lie("wait_ns", -1)},
    {"negative_cpu", usual, "failed", clock_name, block_lie("cpu_ns", -1)},
    {"text_as_time", usual, "failed", clock_name, block_lie("end_ns", "soon")},
    {"negative_latency", usual, "failed", clock_name, lie([](Json& c) { c["latencies_ns"] = Json::array({-1}); })},
    {"other_split", usual, "failed", clock_name, lie([](Json& c) { c["evaluations"] = evaluation("x", 1); })},
    {"accuracy_of_seven", usual, "failed", clock_name, lie([](Json& c) { c["evaluations"] = evaluation("test", 7); })},
    {"incomplete", usual, "failed", clock_name, lie([](Json& c) { c["complete"] = false; })},
    {"other_schema", usual, "failed", clock_name, lie([](Json& c) { c["schema"] = "nope/9"; })},
    {"no_blocks", usual, "failed", clock_name, lie([](Json& c) { c["blocks"] = Json::array(); })},
    {"warm_up_alone", usual, "failed", clock_name, lie([](Json& c) { c["blocks"] = Json::array({c["blocks"][0]}); })},
    {"a_block_less", usual, "failed", clock_name, lie([](Json& c) { c["blocks"].erase(c["blocks"].size() - 1); })},
    {"many_blocks", usual, "failed", clock_name, lie([](Json& c) { c["blocks"].insert(c["blocks"].end(), 100'000, Json(c["blocks"].back())); })},
    {"nan_loss", usual, "failed", "loss is not finite", lie([](Json& c) { for (Json& block : c["blocks"]) block["loss"] = nullptr; })},

    // Their clock files are something else.
    {"no_clock", usual, "failed", clock_name, clock_file(write_nothing)},
    {"fifo_clock", usual, "failed", clock_name, clock_file(write_fifo)},
    {"endless_clock", usual, "failed", clock_name, clock_file(write_endless)},
    {"linked_clock", usual, "failed", clock_name, clock_file(write_link)},
    {"folder_clock", usual, "failed", clock_name, clock_file(write_folder)},
    {"large_clock", usual, "failed", clock_name, clock_file([](const char* path) { write_text(path, "{}" + std::string(40 << 20, ' ')); })},
    {"sparse_clock", usual, "failed", clock_name, clock_file([](const char* path) { write_text(path, "{}"); fs::resize_file(path, 1ULL << 40); })},
    {"deep_clock", usual, "failed", clock_name, clock_file([](const char* path) { write_text(path, std::string(1 << 20, '[')); })},
    {"empty_clock", usual, "failed", clock_name, clock_file([](const char* path) { write_text(path, ""); })},
    {"removes_its_files", usual, "failed", clock_name, at(clock, [](Worker& w) { remove_own_files(); w.clock = nullptr; })},

    // Their answers to the exam are something else.
    {"no_answers", checked, "wrong_result", verified_file, answers(write_nothing)},
    {"fifo_answers", checked, "wrong_result", verified_file, answers(write_fifo)},
    {"endless_answers", checked, "wrong_result", verified_file, answers(write_endless)},
    {"linked_answers", checked, "wrong_result", verified_file, answers(write_link)},
    {"folder_answers", checked, "wrong_result", verified_file, answers(write_folder)},
    {"empty_answers", checked, "wrong_result", verified_file, answers([](const char* path) { write_text(path, ""); })},
    {"half_answers", checked, "wrong_result", verified_file, answers([](const char* path) { write_header(path, 100, "{"); })},
    {"deep_answers", checked, "wrong_result", verified_file, answers([](const char* path) { write_header(path, 15 << 20, std::string(15 << 20, '[')); })},
    {"long_answers", checked, "wrong_result", verified_file, answers([](const char* path) { write_header(path, 1ULL << 60, "{}"); })},
    {"sparse_answers", checked, "wrong_result", verified_file, answers([](const char* path) { write_header(path, 2, "{}"); fs::resize_file(path, 1ULL << 40); })},
    {"removes_its_files_at_verify", checked, "wrong_result", verified_file, answers([](const char*) { remove_own_files(); })},

    // They print, and leave processes.
    {"flood", usual, "ok", "", at(run, [](Worker&) { flood(); })},
    {"closes_its_log", usual, "ok", "", at(hello, [](Worker&) { ::close(1); ::close(2); })},
    {"leaves_behind", usual, "ok", "", at(run, leave_behind)},
    {"leaves_behind_at_hello", usual, "ok", "", at(hello, leave_behind)},
    {"leaves_behind_at_compile", usual, "ok", "", at(compile, leave_behind)},
    {"leaves_children", usual, "ok", "", at(run, [](Worker&) { leave_children(3); })},
    {"leaves_many_children", usual, "ok", "", at(run, [](Worker&) { leave_children(200); })},
    {"leaves_behind_and_crashes", usual, "crashed", "SIGSEGV", at(run, [](Worker& w) { leave_behind(w); die_of(SIGSEGV); })},
    {"forks", usual, "ok", "", at(run, [](Worker&) { fork_twice(); })},
    {"forks_without_end", usual, "ok", "", at(run, [](Worker&) { fork_without_end(); })},
    {"goes_on_in_a_child", usual, "failed", "exited with code 0", at(hello, [](Worker&) { go_on_in_a_child(); })},
    {"goes_on_in_a_child_at_compile", usual, "failed", "exited with code 0", at(compile, [](Worker&) { go_on_in_a_child(); })},
    {"goes_on_in_a_child_at_run", usual, "failed", "exited with code 0", at(run, [](Worker&) { go_on_in_a_child(); })},
    {"says_no_bye", usual, "failed", "'bye'", at(bye, [](Worker&) { std::_Exit(0); })},
    {"wanders", roaming, "failed", "may run on processor", at(run, [](Worker& w) { wander(); w.clock = slept_clock(); })},
    {"works_in_an_orphan", roaming, "failed", "may run on processor", at(run, [](Worker& w) { work_in_an_orphan(w); w.clock = slept_clock(); })},

    // They attack the conductor, or what other forks need.
    {"stops_the_conductor", usual, "ok", "", at(run, [](Worker&) { attack_the_conductor(SIGSTOP); })},
    {"kills_the_conductor", usual, "ok", "", at(run, [](Worker&) { attack_the_conductor(SIGKILL); })},
    {"interrupts_the_conductor", usual, "ok", "", at(run, [](Worker&) { attack_the_conductor(SIGINT); })},
    {"forges", usual, "ok", "", at(run, forge)},
    {"fills", usual, "ok", "", at(run, [](Worker&) { fill(); })},
    {"litters", usual, "ok", "", at(compile, litter)},
    {"leaves_what_stays", usual, "ok", "", at(run, [](Worker&) { leave_what_stays(); })},
};
// clang-format on

}  // namespace

std::span<const Variant> variants() { return table; }

}  // namespace assay::faults
