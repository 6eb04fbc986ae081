// Runs a program that reads files of strangers: confined, with limits, and without a protocol.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/conductor/process/interrupts.hpp"
#include "harness/launch/child.hpp"

namespace assay {

struct ConfinedProgram {
  std::vector<std::string> command;  // looked up in PATH
  // Its working directory, and the only place where it may create, change or remove anything, if the kernel has Landlock.
  std::filesystem::path folder;
  // Next to the variables that reach workers.
  std::map<std::string, std::string> environment{};
  std::uint64_t memory_bytes = 0;  // of its address space
  std::uint64_t file_bytes = 0;    // of each file that it writes
  std::chrono::seconds patience{600};
};

struct ConfinedEnd {
  WorkerExit exit{};
  bool timed_out = false;
  int signal = 0;        // that the user sent to this program meanwhile, which ended the other
  std::string errors{};  // the end of its standard error
};

// Waits for it. Its standard output is this program's. Where the kernel can, it opens no connection by TCP. Throws
// std::system_error if it cannot be started.
ConfinedEnd run_confined(const ConfinedProgram& program, const Interrupts& interrupts);

}  // namespace assay
