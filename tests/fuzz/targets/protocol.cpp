// A line of the channel between conductor and worker.
#include <string>
#include <variant>

#include "harness/core/error.hpp"
#include "harness/protocol/message.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_protocol {
namespace {

void read_command(std::string_view line) {
  const protocol::Command command = protocol::parse_command(line);
  require(protocol::parse_command(protocol::write(command)).verb == command.verb,
          "a command survives the wire");
}

void read_event(std::string_view line) {
  const protocol::Event event = protocol::parse_event(line);
  const std::string written = protocol::write(event);
  require(written.find('\n') == std::string::npos, "an event is one line");
  require(protocol::write(protocol::parse_event(written)) == written, "an event survives the wire");
  const auto require_sizes = [](const protocol::Memory& memory) {
    for (const auto& [name, bytes] : memory) require(bytes >= 0, "nothing has fewer than no bytes");
  };
  if (const auto* compiled = std::get_if<protocol::Compiled>(&event)) require_sizes(compiled->memory);
  if (const auto* ran = std::get_if<protocol::Ran>(&event)) require_sizes(ran->memory);
}

const Registration here("protocol", [](Input input) {
  try {
    read_command(text_of(input));
  } catch (const Error&) {
  }
  read_event(text_of(input));
});

}  // namespace
}  // namespace assay::fuzz::of_protocol
