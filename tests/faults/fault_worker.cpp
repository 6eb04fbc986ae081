// A worker that follows its mode: it behaves, with declared instead of measured times, or goes wrong in one
// known way (variants.cpp).
//
//   fault_worker              is a worker in a cell folder
//   fault_worker --describe   prints its backend.json
//   fault_worker --oracle     prints that of an oracle, which answers every exam with zeros
//   fault_worker --variants   prints the hostile variants and the expected rows, for scripts/lab/campaign
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>

#include "harness/core/clock.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/worker/loaded_libraries.hpp"
#include "tests/faults/variants.hpp"
#include "tests/faults/zero_answers.hpp"

namespace assay::faults {

using protocol::Verb;

void Worker::send_raw(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(4, text.data(), text.size());
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
    if (count < 0 && errno != EAGAIN) return;
  }
}

namespace {

Json block(const char* kind, int epoch, std::int64_t steps, std::int64_t begin, std::int64_t end) {
  return {{"kind", kind},
          {"epoch", epoch},
          {"steps", steps},
          {"begin_ns", begin},
          {"end_ns", end},
          {"wait_ns", 0},
          {"cpu_ns", end - begin},
          {"involuntary_switches", 0},
          {"major_faults", 0},
          {"steal_ns", 0},
          {"loss", 0.5}};
}

Json clock_file(const Json& blocks, const Json& evaluations, int warm_up_steps) {
  return {{"schema", "assay-clock/1"},
          {"complete", true},
          {"warm_up", {{"steps", warm_up_steps}, {"seconds", 0.01}, {"steady", true}}},
          {"blocks", blocks},
          {"evaluations", evaluations},
          {"latencies_ns", Json::array()}};
}

}  // namespace

Json declared_clock(const Json& request, double factor) {
  const std::int64_t usual_ns = 1'000 + 10 * request.at("seed").get<std::int64_t>();
  const std::int64_t step_ns = std::llround(static_cast<double>(usual_ns) * factor * FAULT_FACTOR);
  Json blocks = Json::array(), evaluations = Json::array();
  std::int64_t now = now_ns();
  const auto add = [&](const char* kind, int epoch, std::int64_t steps) {
    blocks.push_back(block(kind, epoch, steps, now, now + steps * step_ns));
    now += steps * step_ns;
  };
  const Json& plan = request.at("clock");
  if (plan.at("kind") == "steps") {
    add("warm_up", 0, 10);
    for (int i = 0; i < plan.at("blocks").get<int>(); ++i) add("timed", 0, 100);
  } else {
    for (int epoch = 1; epoch <= plan.at("epochs").get<int>(); ++epoch) {
      add("timed", epoch, 100);
      for (const char* split : {"train", "validation", "test"}) {
        evaluations.push_back({{"epoch", epoch},
                               {"split", split},
                               {"samples", 100},
                               {"loss", 0.4},
                               {"accuracy", 0.75},
                               {"seconds", 1e-3}});
        now += 1'000'000;
      }
    }
  }
  while (now_ns() < now) {
  }
  return clock_file(blocks, evaluations, 10);
}

Json slept_clock() {
  std::ofstream("results/began").flush();
  Json blocks = Json::array();
  const auto add = [&](const char* kind, int milliseconds) {
    const std::int64_t begin = now_ns();
    ::usleep(static_cast<unsigned>(milliseconds) * 1000);
    blocks.push_back(block(kind, 0, milliseconds / 10, begin, now_ns()));
  };
  add("warm_up", 500);
  for (int i = 0; i < 3; ++i) add("timed", 600);
  return clock_file(blocks, Json::array(), 50);
}

Json busy_clock(const Json& request) {
  Json blocks = Json::array();
  const auto add = [&](const char* kind) {
    const std::int64_t begin = now_ns(), end = begin + 100'000'000;
    while (now_ns() < end) {
    }
    blocks.push_back(block(kind, 0, 100, begin, end));
  };
  add("warm_up");
  for (int i = 0; i < request.at("clock").at("blocks").get<int>(); ++i) add("timed");
  return clock_file(blocks, Json::array(), 100);
}

Json hidden_clock(const Json& request) {
  Json blocks = Json::array();
  const auto add = [&](const char* kind) {
    const std::int64_t begin = now_ns();
    const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 4;
    while (std::clock() < end) {
    }
    blocks.push_back(block(kind, 0, 100, begin, now_ns()));
    blocks.back()["cpu_ns"] = 0;
  };
  add("warm_up");
  for (int i = 0; i < request.at("clock").at("blocks").get<int>(); ++i) add("timed");
  return clock_file(blocks, Json::array(), 100);
}

namespace {

Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

class Conversation {
 public:
  explicit Conversation(const Json& request) : worker_{.request = request} {
    if (request.contains("oracle")) return;
    const std::string mode = request.at("mode");
    const auto found =
        std::ranges::find_if(variants(), [&](const Variant& variant) { return variant.mode == mode; });
    if (found == variants().end()) throw std::runtime_error("no variant has the name " + mode);
    deed_ = found->deed;
  }

  int run() {
    worker_.hello = {
        protocol::version,
        worker_.request.contains("oracle") ? "zero" : "fault",
        "1.0",
        {loaded_libraries().front()},
        {{"threads", "1"}, {"process", std::to_string(::getpid())}, {"TF_TOKEN_example_org", "a secret"}}};
    act(Moment::hello);
    worker_.send(worker_.hello);
    for (;;) {
      const protocol::Line line = worker_.channel.read_line();
      if (line.reading != protocol::Reading::line) return 0;
      if (!answer(protocol::parse_command(line.text).verb)) return 0;
    }
  }

 private:
  void act(Moment moment) {
    if (deed_.act && deed_.moment == moment) deed_.act(worker_);
  }

  // Returns false after the last answer.
  bool answer(Verb verb) {
    switch (verb) {
      case Verb::compile:
        act(Moment::compile);
        worker_.send(protocol::Compiled{worker_.compile_seconds, {}, {{"planned_arena", 4096}}});
        return true;
      case Verb::run:
        time_steps();
        return true;
      case Verb::restart:
        worker_.request = read_json("request.json");
        worker_.send(protocol::Restarted{});
        return true;
      case Verb::exchange:
        worker_.send(worker_.exchanged);
        return true;
      case Verb::time_device:
        worker_.send(worker_.device_timed);
        return true;
      case Verb::quit:
        act(Moment::bye);
        worker_.send(protocol::Bye{});
        return false;
      case Verb::verify:
        act(Moment::verify);
        if (worker_.answers)
          worker_.send(protocol::Verified{});
        else
          worker_.send(
              protocol::Error{protocol::ErrorKind::unsupported, "the fault worker computes nothing"});
        return true;
      case Verb::oracle:
        std::filesystem::create_directories("results");
        write_safetensors("results/oracle.safetensors", oracle_answers());
        worker_.send(protocol::Judged{});
        return true;
    }
    return false;
  }

  void time_steps() {
    worker_.clock = nullptr;
    act(Moment::run);
    if (worker_.clock.is_null()) worker_.clock = declared_clock(worker_.request);
    act(Moment::clock);
    if (!worker_.clock.is_null()) std::ofstream("results/clock.json") << worker_.clock;
    worker_.send(protocol::Ran{.settings = {{"left", std::to_string(worker_.left)}}});
  }

  Worker worker_;
  Deed deed_{};
};

Json options_of(Trial trial) {
  if (trial == Trial::limited) return Json::array({"--time-limit", "2"});
  if (trial == Trial::checked) return Json::array({"--check=true", "--batch", "8", "--distinct", "1"});
  return Json::array();
}

int usable_processors() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  return ::sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
}

Json hostile_variants() {
  Json all = Json::array();
  for (const Variant& variant : variants())
    if (variant.trial != Trial::none && (variant.trial != Trial::roaming || usable_processors() > 1))
      all.push_back({{"mode", variant.mode},
                     {"status", variant.status},
                     {"words", variant.words},
                     {"options", options_of(variant.trial)}});
  return all;
}

Json description() {
  Json modes = Json::array();
  for (const Variant& variant : variants()) modes.push_back(variant.mode);
  return {{"name", "fault"},
          {"description", "Goes wrong in the way that its mode names"},
          {"kind", "bare"},
          {"command", Json::array({std::filesystem::read_symlink("/proc/self/exe").string()})},
          {"devices", Json::array({"cpu", "cuda"})},
          {"modes", modes},
          {"compiles", Json::array({"compiles_nothing", "good"})},
          {"tasks", Json::array({"train", "infer"})},
          {"precisions", Json::array({"fp32"})},
          {"layouts", Json::array({"native"})},
          {"loaders", Json::array({"resident", "harness"})},
          {"times_device", true},
          {"environment", {{"FAULT_CACHE", "${cache}/fault"}}}};
}

Json description_of_oracle() {
  Json described = description();
  described.update({{"name", "zero"},
                    {"description", "Answers every exam with zeros"},
                    {"kind", "oracle"},
                    {"oracle", true},
                    {"devices", Json::array({"cpu"})},
                    {"modes", Json::array({"eager"})},
                    {"precisions", Json::array({"fp64"})},
                    {"loaders", Json::array({"resident"})}});
  described.erase("environment");
  described.erase("compiles");
  return described;
}

}  // namespace
}  // namespace assay::faults

int main(int count, char** arguments) {
  using namespace assay::faults;
  const std::string asked = count > 1 ? arguments[1] : "";
  if (asked == "--describe") {
    std::cout << description().dump(2) << '\n';
    return 0;
  }
  if (asked == "--oracle") {
    std::cout << description_of_oracle().dump(2) << '\n';
    return 0;
  }
  if (asked == "--variants") {
    std::cout << hostile_variants().dump(2) << '\n';
    return 0;
  }
  return Conversation(read_json("request.json")).run();
}
