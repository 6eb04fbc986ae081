// A worker that follows its mode: it behaves, with declared instead of measured times, or goes wrong in one
// known way.
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <new>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/core/clock.hpp"
#include "harness/protocol/channel.hpp"
#include "harness/protocol/message.hpp"

namespace {

using namespace assay::protocol;
using Json = nlohmann::json;

Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

// Contradictions in a clock file, one line each.
const std::map<std::string, std::function<void(Json&)>> lies = {
    {"overlap", [](Json& clock) { clock["blocks"][1]["begin_ns"] = clock["blocks"][0]["begin_ns"]; }},
    {"no_length", [](Json& clock) { clock["blocks"][1]["end_ns"] = clock["blocks"][1]["begin_ns"]; }},
    {"thrice", [](Json& clock) { clock["blocks"].insert(clock["blocks"].end(), 2, clock["blocks"].back()); }},
    {"no_steps", [](Json& clock) { clock["blocks"][1]["steps"] = 0; }},
    {"negative_steps", [](Json& clock) { clock["blocks"][1]["steps"] = -5; }},
    {"huge_steps", [](Json& clock) { clock["blocks"][1]["steps"] = std::int64_t{1} << 62; }},
    {"other_kind", [](Json& clock) { clock["blocks"][1]["kind"] = "tepid"; }},
    {"long_wait", [](Json& clock) { clock["blocks"][1]["wait_ns"] = 1'000'000'000'000; }},
    {"negative_wait", [](Json& clock) { clock["blocks"][1]["wait_ns"] = -1; }},
    {"negative_cpu", [](Json& clock) { clock["blocks"][1]["cpu_ns"] = -1; }},
    {"negative_latency", [](Json& clock) { clock["latencies_ns"] = {-1}; }},
    {"other_split",
     [](Json& clock) {
       clock["evaluations"] = {{{"epoch", 0},
                                {"split", "x"},
                                {"samples", 1},
                                {"loss", 1.0},
                                {"accuracy", 1.0},
                                {"seconds", 1.0}}};
     }},
    {"accuracy_of_seven",
     [](Json& clock) {
       clock["evaluations"] = {{{"epoch", 0},
                                {"split", "test"},
                                {"samples", 1},
                                {"loss", 1.0},
                                {"accuracy", 7.0},
                                {"seconds", 1.0}}};
     }},
    {"incomplete", [](Json& clock) { clock["complete"] = false; }},
    {"other_schema", [](Json& clock) { clock["schema"] = "nope/9"; }},
    {"no_blocks", [](Json& clock) { clock["blocks"] = Json::array(); }},
    {"warm_up_alone",
     [](Json& clock) { clock["blocks"].erase(clock["blocks"].begin() + 1, clock["blocks"].end()); }},
    {"a_block_less", [](Json& clock) { clock["blocks"].erase(clock["blocks"].size() - 1); }},
};

// Writes a file that is not a clock file, if the mode asks for one; returns whether it does.
bool write_no_file(const std::string& mode) {
  const char* path = "results/clock.json";
  if (mode == "fifo_clock") return ::mkfifo(path, 0600) == 0;
  if (mode == "endless_clock") return ::symlink("/dev/zero", path) == 0;
  if (mode == "linked_clock") return ::symlink("/proc/self/environ", path) == 0;
  if (mode == "large_clock") {
    std::ofstream file(path);
    file << "{}" << std::string(40 << 20, ' ');
    return true;
  }
  if (mode == "deep_clock") {
    std::ofstream file(path);
    file << std::string(1 << 20, '[');
    return true;
  }
  return false;
}

// A safetensors file that declares a header of that length.
void write_header(const char* path, std::uint64_t length, const std::string& header) {
  std::ofstream file(path);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header;
}

// Writes wrong answers to the exam, one line per mode; returns whether the mode asks for them.
bool write_no_answers(const std::string& mode) {
  const char* path = "results/verify.safetensors";
  constexpr std::uint64_t longest = 15 << 20, terabyte = std::uint64_t{1} << 40;
  if (mode == "no_answers") return true;
  if (mode == "fifo_answers") return ::mkfifo(path, 0600) == 0;
  if (mode == "endless_answers") return ::symlink("/dev/zero", path) == 0;
  if (mode == "linked_answers") return ::symlink("/proc/self/environ", path) == 0;
  if (mode == "deep_answers") return write_header(path, longest, std::string(longest, '[')), true;
  if (mode == "long_answers") return write_header(path, std::uint64_t{1} << 60, "{}"), true;
  if (mode == "sparse_answers")
    return write_header(path, 2, "{}"), ::truncate(path, static_cast<off_t>(terabyte)) == 0;
  return false;
}

// Blocks of a declared length, waited through: a step takes (1 + seed / 100) us, a fifth more where it is
// heavier.
void write_clock(const Json& request) {
  const std::int64_t usual_ns = 1'000 + 10 * request.at("seed").get<std::int64_t>();
  const std::int64_t step_ns = request.at("mode") == "heavier" ? usual_ns * 6 / 5 : usual_ns;
  const bool nan = request.at("mode") == "nan_loss";
  Json blocks = Json::array(), evaluations = Json::array();
  std::int64_t now = assay::now_ns();
  const auto block = [&](const char* kind, int epoch, std::int64_t steps) {
    const std::int64_t end = now + steps * step_ns;
    blocks.push_back({{"kind", kind},
                      {"epoch", epoch},
                      {"steps", steps},
                      {"begin_ns", now},
                      {"end_ns", end},
                      {"wait_ns", 0},
                      {"cpu_ns", end - now},
                      {"involuntary_switches", 0},
                      {"major_faults", 0},
                      {"steal_ns", 0},
                      {"loss", nan ? Json(nullptr) : Json(0.5)}});
    now = end;
  };
  const Json& clock = request.at("clock");
  if (clock.at("kind") == "steps") {
    block("warm_up", 0, 10);
    for (int i = 0; i < clock.at("blocks").get<int>(); ++i) block("timed", 0, 100);
  } else {
    for (int epoch = 1; epoch <= clock.at("epochs").get<int>(); ++epoch) {
      block("timed", epoch, 100);
      for (const char* split : {"train", "validation", "test"}) {
        evaluations.push_back({{"epoch", epoch},
                               {"split", split},
                               {"samples", 100},
                               {"loss", 0.4},
                               {"accuracy", 0.75},
                               {"seconds", 0.01}});
      }
    }
  }
  if (request.at("mode") == "early_clock") blocks[0]["begin_ns"] = 1;
  if (request.at("mode") == "late_clock") blocks.back()["end_ns"] = now + 60'000'000'000;
  while (assay::now_ns() < now) {
  }
  Json file = {{"schema", "assay-clock/1"},
               {"complete", true},
               {"warm_up", {{"steps", 10}, {"seconds", 0.01}, {"steady", true}}},
               {"blocks", blocks},
               {"evaluations", evaluations},
               {"latencies_ns", Json::array()}};
  if (const auto lie = lies.find(request.at("mode")); lie != lies.end()) lie->second(file);
  if (!write_no_file(request.at("mode"))) std::ofstream("results/clock.json") << file;
}

// The same on the real clock, slept through, so that samples from outside fall into the blocks.
void write_slept_clock() {
  Json blocks = Json::array();
  const auto block = [&](const char* kind, int milliseconds) {
    const std::int64_t begin = assay::now_ns();
    ::usleep(static_cast<unsigned>(milliseconds) * 1000);
    const std::int64_t end = assay::now_ns();
    blocks.push_back({{"kind", kind},
                      {"epoch", 0},
                      {"steps", milliseconds / 10},
                      {"begin_ns", begin},
                      {"end_ns", end},
                      {"wait_ns", 0},
                      {"cpu_ns", end - begin},
                      {"involuntary_switches", 0},
                      {"major_faults", 0},
                      {"steal_ns", 0},
                      {"loss", 0.5}});
  };
  block("warm_up", 500);
  for (int i = 0; i < 3; ++i) block("timed", 600);
  std::ofstream("results/clock.json")
      << Json{{"schema", "assay-clock/1"},
              {"complete", true},
              {"warm_up", {{"steps", 50}, {"seconds", 0.5}, {"steady", true}}},
              {"blocks", blocks},
              {"evaluations", Json::array()},
              {"latencies_ns", Json::array()}};
}

class Fault {
 public:
  explicit Fault(Json request) : request_(std::move(request)), mode_(request_.at("mode")) {}

  int run() {
    at_start();
    Hello hello{mode_ == "old_protocol" ? 0 : version,
                mode_ == "impostor" ? "somebody" : "fault",
                "1.0",
                {},
                {{"threads", "1"}, {"process", std::to_string(::getpid())}}};
    send(hello);
    for (;;) {
      const Line line = channel_.read_line();
      if (line.reading != Reading::line) return 0;
      switch (parse_command(line.text).verb) {
        case Verb::compile:
          at_compile();
          send(Compiled{0.25, {}, {{"planned_arena", 4096}}});
          break;
        case Verb::run:
          at_run();
          if (mode_ == "sleeps" || mode_ == "wanders")
            write_slept_clock();
          else if (mode_ != "no_clock")
            write_clock(request_);
          send(Ran{.settings = {{"left", std::to_string(left_)}}});
          break;
        case Verb::restart:
          request_ = read_json("request.json");
          send(Restarted{});
          break;
        case Verb::quit:
          send(Bye{});
          return mode_ == "fails_at_bye" ? 1 : 0;
        case Verb::verify:
          if (write_no_answers(mode_)) {
            send(Verified{});
            break;
          }
          [[fallthrough]];
        case Verb::oracle:
          send(Error{ErrorKind::unsupported, "the fault worker computes nothing"});
          break;
      }
    }
  }

 private:
  // By the signal itself: a sanitizer's handler would turn it into an exit code.
  [[noreturn]] static void crash() {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
    std::abort();
  }

  // Two children that hold 64 MiB each at the same time, for as long as a few samples take.
  static void fork_twice() {
    for (int i = 0; i < 2; ++i) {
      if (::fork() != 0) continue;
      std::string held(64 << 20, 'x');
      ::usleep(1'200'000);
      ::_exit(held.back() == 'x' ? 0 : 1);
    }
    while (::wait(nullptr) > 0) {
    }
  }

  void at_start() {
    if (mode_ == "crash_at_hello") crash();
    if (mode_ == "hang_at_hello") hang();
    if (mode_ == "deaf") {
      ::close(3);
      ::close(4);
      hang();
    }
  }

  void at_compile() {
    meet();
    if (mode_ == "unsupported")
      send(Error{ErrorKind::unsupported, "[convolution] stride 3 has no kernel here"});
    if (mode_ == "no_gpu" && request_.at("device") == "cuda")
      send(Error{ErrorKind::unavailable, "no GPU can be used"});
    if (mode_ == "out_of_memory") send(Error{ErrorKind::out_of_memory, "the device has 2 GiB"});
    if (mode_ == "bad_alloc") throw std::bad_alloc();
    if (mode_ == "evil_error")
      send(Error{ErrorKind::failed,
                 "\x1b[31mowned\n::error::owned\xc2\x9b"
                 "31m"});
  }

  static std::size_t files_of(const std::filesystem::path& folder, const std::string& kind) {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename().string().starts_with(kind)) ++count;
    return count;
  }

  // Waits until the checks of two cells run at the same time; then "wants_room" fails until it is the only
  // one.
  void meet() {
    if (mode_ != "meets" && mode_ != "wants_room") return;
    const std::filesystem::path folder = std::filesystem::path(std::getenv("TMPDIR")) / "meeting";
    const std::string own = std::to_string(request_.at("batch").get<int>());
    std::filesystem::create_directories(folder);
    const bool again = std::filesystem::exists(folder / ("came-" + own));
    std::ofstream(folder / ("came-" + own)).flush();
    std::ofstream(folder / ("here-" + own)).flush();
    for (int i = 0; i < 6000 && files_of(folder, "came-") < 2; ++i) ::usleep(10'000);
    const bool met = files_of(folder, "came-") == 2, alone = files_of(folder, "here-") == 1;
    std::filesystem::remove(folder / ("here-" + own));
    if (!met) send(Error{ErrorKind::failed, "nobody came"});
    if (mode_ == "wants_room" && !again) send(Error{ErrorKind::out_of_memory, "two are too many"});
    send(Error{ErrorKind::unsupported, again && alone ? "alone at last" : "two were here"});
  }

  // A thread that may run on every processor.
  static void wander() {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
    ::sched_setaffinity(0, sizeof all, &all);
  }

  // Starts a process in its own session; returns its number.
  static pid_t leave_behind() {
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
    pid_t left = 0;
    [[maybe_unused]] const ssize_t told = ::read(ends[0], &left, sizeof left);
    return left;
  }

  void at_run() {
    if (mode_ == "leaves_behind") left_ = leave_behind();
    if (mode_ == "wanders") wander();
    if (mode_ == "crash_once" && request_.at("seed") == 2) crash();
    if (mode_ == "crash") {
      std::cerr << "about to fall\n";
      crash();
    }
    if (mode_ == "killed") std::raise(SIGKILL);
    if (mode_ == "hang") {
      std::signal(SIGTERM, SIG_IGN);
      hang();
    }
    if (mode_ == "slow") ::usleep(300'000);
    if (mode_ == "forks") fork_twice();
    if (mode_ == "flood") {
      const std::string line(1000, 'x');
      for (int i = 0; i < 20'000; ++i) std::cerr << line << '\n';
    }
    if (mode_ == "garbage") raw("Traceback (most recent call last):\n");
    if (mode_ == "long_line") raw(std::string(max_line_bytes + 100'000, 'y'));
    if (mode_ == "half_line") {
      raw("{\"event\": \"ra");
      std::_Exit(1);
    }
    if (mode_ == "wrong_event") send(Verified{});
    if (mode_ == "exits") {
      std::cerr << "RuntimeError: no such luck\n";
      std::exit(3);
    }
    while (mode_ == "chatty") send(Progress{1, 2});
  }

  void send(const Event& event) { channel_.write_line(write(event)); }
  void raw(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::write(4, text.data(), text.size());
      if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
      if (count < 0 && errno != EAGAIN) return;
    }
  }

  Json request_;
  std::string mode_;
  pid_t left_ = 0;
  Channel channel_{3, 4};
};

}  // namespace

int main() { return Fault(read_json("request.json")).run(); }
