// The messages of docs/reference/protocol.md as types. One JSON object for each line; unknown fields are
// ignored, so that both sides may add fields.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/core/error.hpp"
#include "harness/core/json/fields.hpp"
#include "harness/core/words.hpp"

namespace assay::protocol {

inline constexpr int version = 1;

// The other side sent an invalid message: the text shows the message and the expectation.
class ProtocolError : public assay::Error {
 public:
  using assay::Error::Error;
};

enum class Verb { compile, run, verify, restart, exchange, time_device, oracle, quit };
enum class ErrorKind { unsupported, unavailable, out_of_memory, failed };

}  // namespace assay::protocol

namespace assay {

template <>
inline constexpr auto words<protocol::Verb> =
    std::array{Word{protocol::Verb::compile, "compile"},   Word{protocol::Verb::run, "run"},
               Word{protocol::Verb::verify, "verify"},     Word{protocol::Verb::restart, "restart"},
               Word{protocol::Verb::exchange, "exchange"}, Word{protocol::Verb::time_device, "time_device"},
               Word{protocol::Verb::oracle, "oracle"},     Word{protocol::Verb::quit, "quit"}};
template <>
inline constexpr auto words<protocol::ErrorKind> = std::array{
    Word{protocol::ErrorKind::unsupported, "unsupported"},
    Word{protocol::ErrorKind::unavailable, "unavailable"},
    Word{protocol::ErrorKind::out_of_memory, "out_of_memory"}, Word{protocol::ErrorKind::failed, "failed"}};

}  // namespace assay

namespace assay::protocol {

struct Command {
  Verb verb = Verb::quit;
};
inline Description describe(Of<Command>) {
  return fields("command", "A request of the conductor.", field("command", &Command::verb, "The verb."));
}

using Memory = std::map<std::string, std::int64_t>;   // bytes by name
using Settings = std::map<std::string, std::string>;  // as observed

// A vendor library as the process loaded it.
struct Library {
  std::string name{}, version{}, path{};
  bool under_test = false;
  bool operator==(const Library&) const = default;
};
inline Description describe(Of<Library>) {
  return fields(
      "library", "A library as the worker loaded it.", field("name", &Library::name, "`oneDNN`."),
      field("version", &Library::version,
            "`3.2.0`, with its build if it has one; else `build-id` and the linker's id of the file.")
          .optional(),
      field("path", &Library::path, "Path of the shared object; empty if linked statically.").optional(),
      field(
          "under_test", &Library::under_test,
          "Set by the harness for its own files: the worker's program and what is in its backend's folder, and the "
          "harness's libraries. `assay compare` is about these, so it does not hold a change of them against the "
          "comparison.")
          .left_out_by_default());
}

struct OperatorTime {
  std::string node{}, op{};
  double seconds = 0;
  std::int64_t calls = 0;
  std::string implementation{};
};
inline Description describe(Of<OperatorTime>) {
  return fields("operator", "Time of one node over a profiled run.",
                field("node", &OperatorTime::node, "Name in the graph."),
                field("op", &OperatorTime::op, "Its op.").optional(),
                field("seconds", &OperatorTime::seconds, "Summed over the calls.").at_least(0),
                field("calls", &OperatorTime::calls, "Number of runs.").at_least(0),
                field("implementation", &OperatorTime::implementation,
                      "The library's implementation that ran, by the library's own name: "
                      "`brgconv:avx512_core`.")
                    .left_out_by_default());
}

struct Hello {
  int protocol = version;
  std::string backend{}, version_of_backend{};
  std::vector<Library> libraries{};
  Settings settings{};
};
inline Description describe(Of<Hello>) {
  return fields("hello", "Introduces the worker.",
                field("protocol", &Hello::protocol, "The version of the protocol that it uses."),
                field("backend", &Hello::backend, "Its name."),
                field("version", &Hello::version_of_backend, "Its version.").optional(),
                field("libraries", &Hello::libraries, "Libraries that it loaded.").optional(),
                field("settings", &Hello::settings, "As observed.").optional());
}

struct Compiled {
  double seconds = 0;
  Settings settings{};
  Memory memory{};
};
inline Description describe(Of<Compiled>) {
  return fields("compiled", "The program can run.",
                field("seconds", &Compiled::seconds, "Time of the compilation."),
                field("settings", &Compiled::settings, "As observed.").optional(),
                field("memory", &Compiled::memory, "Bytes by name.").at_least(0).optional());
}

struct Verified {};
struct Restarted {};
struct Judged {};
struct Bye {};
inline Description describe(Of<Verified>) { return fields("verified", "The exam's answers are written."); }
inline Description describe(Of<Restarted>) {
  return fields("restarted", "The state is again that of the cell folder.");
}
inline Description describe(Of<Judged>) { return fields("judged", "The oracle's answers are written."); }
inline Description describe(Of<Bye>) { return fields("bye", "The worker ends."); }

struct Ran {
  Memory memory{};
  Settings settings{};
  std::vector<OperatorTime> operators{};
  std::string state_digest{};
};
inline Description describe(Of<Ran>) {
  return fields(
      "ran", "The steps are timed.", field("memory", &Ran::memory, "Bytes by name.").at_least(0).optional(),
      field("settings", &Ran::settings, "As observed.").optional(),
      field("operators", &Ran::operators, "The profile, if it was requested.").optional(),
      field("state_digest", &Ran::state_digest, "SHA-256 of the final state.").left_out_by_default());
}

// What the exchange of gradients costs one of several ranks, measured after its timed steps.
struct Exchanged {
  std::string reason{};
  std::int64_t gradient_bytes = 0;
  std::int64_t steps = 0;
  std::vector<double> step_seconds{}, local_seconds{}, bare_seconds{};
  bool operator==(const Exchanged&) const = default;
};
inline Description describe(Of<Exchanged>) {
  return fields(
      "exchanged",
      "What the exchange of gradients costs one of several ranks, measured after its timed steps.",
      field("reason", &Exchanged::reason, "Why it was not measured; then it has no times.")
          .left_out_by_default(),
      field("gradient_bytes", &Exchanged::gradient_bytes,
            "Bytes of the gradients that the rank gives to the exchange in a step.")
          .at_least(0)
          .left_out_by_default(),
      field("steps", &Exchanged::steps, "Number of runs in a row; each time is the mean of that many.")
          .at_least(0)
          .left_out_by_default(),
      field("step_seconds", &Exchanged::step_seconds,
            "Seconds of the step that was timed, one for each round.")
          .left_out_by_default(),
      field(
          "local_seconds", &Exchanged::local_seconds,
          "Seconds of the same step without the exchange, in the same rounds: each rank updates with its own "
          "gradients.")
          .left_out_by_default(),
      field("bare_seconds", &Exchanged::bare_seconds,
            "Seconds of an exchange of as many bytes with nothing else going on, in the same rounds.")
          .left_out_by_default());
}

// What a single op takes on its device alone, measured after its timed steps.
struct DeviceTimed {
  std::string reason{};
  std::int64_t steps = 0;
  std::vector<double> step_seconds{};
  bool operator==(const DeviceTimed&) const = default;
};
inline Description describe(Of<DeviceTimed>) {
  return fields(
      "device_timed",
      "What a step of a single op takes on its device alone: many steps over the staged operands, which the host hands "
      "over at once.",
      field("reason", &DeviceTimed::reason, "Why it was not measured; then it has no times.")
          .left_out_by_default(),
      field("steps", &DeviceTimed::steps, "Number of steps that are handed over at once.")
          .at_least(0)
          .left_out_by_default(),
      field(
          "step_seconds", &DeviceTimed::step_seconds,
          "Seconds of a step by the device's clock, the mean of that many: one for each time that they ran.")
          .left_out_by_default());
}

struct Progress {
  std::int64_t done = 0, planned = 0;
};
inline Description describe(Of<Progress>) {
  return fields("progress", "Progress in steps.", field("done", &Progress::done, "Steps that are done."),
                field("planned", &Progress::planned, "Total steps, as far as known."));
}

struct Error {
  ErrorKind kind = ErrorKind::failed;
  std::string reason{};
};
inline Description describe(Of<Error>) {
  return fields("error", "A command failed.", field("kind", &Error::kind, "The status."),
                field("reason", &Error::reason, "Why.").optional());
}

using Event = std::variant<Hello, Compiled, Ran, Verified, Restarted, Exchanged, DeviceTimed, Judged, Bye,
                           Progress, Error>;
// "hello", "compiled", ...
std::string_view name_of(const Event& event);

// What cannot be true of the fields together: "must have times of its exchange, or a reason"; empty if nothing.
std::string contradiction(const Exchanged& exchanged);
std::string contradiction(const DeviceTimed& timed);

// One line without its newline. Invalid UTF-8 is replaced, so that a reason can quote anything; a number that
// is not finite throws ProtocolError.
std::string write(const Command& command);
std::string write(const Event& event);

// Throw ProtocolError.
Command parse_command(std::string_view line);
Event parse_event(std::string_view line);

}  // namespace assay::protocol
