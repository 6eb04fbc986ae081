#include "harness/conductor/cli/command_io.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include "harness/conductor/print/printers.hpp"
#include "harness/core/json/strict_json.hpp"

namespace assay::cli {

void print(std::string_view text) {
  // Flushes at once, so that a full disk is reported here and not after main().
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw std::system_error(errno, std::generic_category(), "standard output");
  throw IoError("print", "standard output", "cannot be written", errno);
}

void print(const std::vector<Table>& tables) { print(console(tables, console_style(STDOUT_FILENO))); }

void print_json(const nlohmann::json& json) { print(strict_json_text(json)); }

void warn(std::string_view text) {
  const std::string line =
      console_note("assay: " + std::string(text), {.utf8 = console_style(STDERR_FILENO).utf8});
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace assay::cli
