// The messages of docs/protocol.md as types. One JSON object a line; unknown fields are ignored, so that both
// sides may grow.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/core/error.hpp"

namespace assay::protocol {

inline constexpr int version = 1;

// What the other side sent is no message: the text shows what was seen, and what was expected.
class ProtocolError : public assay::Error {
 public:
  using assay::Error::Error;
};

enum class Verb { compile, check, run, verify, oracle, quit };
std::string_view to_string(Verb verb);

struct Command {
  Verb verb = Verb::quit;
  bool check = false;  // of compile: gradients will be read
};

using Memory = std::map<std::string, std::int64_t>;   // bytes by name
using Settings = std::map<std::string, std::string>;  // as observed

// A vendor library as it was loaded.
struct Library {
  std::string name;     // "oneDNN"
  std::string version;  // "3.2.0 (commit)"
  std::string path;     // of the shared object; empty when linked statically
};

struct OperatorTime {
  std::string node, op;
  double seconds = 0;  // summed over the calls
  std::int64_t calls = 0;
  std::string implementation{};  // which of the library's: "brgconv:avx512_core"; may be empty
};

struct Hello {
  int protocol = version;
  std::string backend, version_of_backend;
  std::vector<Library> libraries;
  Settings settings;
};
struct Compiled {
  double seconds = 0;
  Settings settings;
  Memory memory;
};
struct Checked {};
struct Ran {
  Memory memory;
  Settings settings;
  std::vector<OperatorTime> operators;
  std::string state_digest{};  // sha256 of the final state; may be empty
};
struct Verified {};
struct Judged {};
struct Bye {};
struct Progress {
  std::int64_t done = 0, planned = 0;
};
enum class ErrorKind { unsupported, unavailable, out_of_memory, failed };
struct Error {
  ErrorKind kind = ErrorKind::failed;
  std::string reason;
};

using Event = std::variant<Hello, Compiled, Checked, Ran, Verified, Judged, Bye, Progress, Error>;
// "hello", "compiled", ...
std::string_view name_of(const Event& event);

// One line without its newline. Text that is not UTF-8 is mended, so that a reason can quote anything; a
// number that is not finite throws ProtocolError.
std::string write(const Command& command);
std::string write(const Event& event);

// Throw ProtocolError.
Command parse_command(std::string_view line);
Event parse_event(std::string_view line);

}  // namespace assay::protocol
