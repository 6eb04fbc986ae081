// Workers that go wrong, one line each in variants.cpp. fault_worker.cpp plays the one that its request names as its mode.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "harness/protocol/channel.hpp"
#include "harness/protocol/message.hpp"

namespace assay::faults {

using Json = nlohmann::json;

// What a variant may use and change.
struct Worker {
  Json request;
  protocol::Channel channel{3, 4};
  protocol::Hello hello{};         // what it introduces itself as
  Json clock{};                    // what is written to results/clock.json; null: no file
  double compile_seconds = 0.005;  // as it reports
  bool answers = false;            // the exam's answers are written
  protocol::Exchanged exchanged{.gradient_bytes = 4096,
                                .steps = 2,
                                .step_seconds = {3e-9, 3e-9},
                                .local_seconds = {2e-9, 2e-9},
                                .bare_seconds = {1e-9, 1e-9}};
  protocol::DeviceTimed device_timed{.steps = 1000, .step_seconds = {1e-9, 3e-9, 2e-9}};
  pid_t left = 0;  // a process that the worker leaves behind

  void send(const protocol::Event& event) { channel.write_line(protocol::write(event)); }
  void send_raw(std::string_view text);
};

// When a variant acts: before the answer, or (clock) when the contents of the clock file are known.
enum class Moment { hello, compile, run, clock, verify, bye };

struct Deed {
  Moment moment = Moment::hello;
  std::function<void(Worker&)> act{};  // empty: the worker behaves
};

// How scripts/lab/campaign workers runs it: as usual, the same where there are two processors, with --time-limit 2, or with
// the check.
enum class Trial { usual, roaming, limited, checked, none };

struct Variant {
  std::string_view mode;
  Trial trial;              // none: it behaves, or depends on other cells; it is not hostile
  std::string_view status;  // of its row
  std::string_view words;   // in the reason of its row
  Deed deed{};
};
std::span<const Variant> variants();

// Blocks of a declared length, waited through: a step takes (1 + seed / 100) us, times `factor`.
Json declared_clock(const Json& request, double factor = 1);
// Blocks on the real clock, 100 ms each, in which one thread is busy.
Json busy_clock(const Json& request);
// Blocks on the real clock that use 250 ms of processor time each and report none.
Json hidden_clock(const Json& request);
// Blocks on the real clock, slept through, so that samples from outside fall into them. Makes results/began before.
Json slept_clock();

}  // namespace assay::faults
