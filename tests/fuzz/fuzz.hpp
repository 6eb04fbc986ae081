// Shared by the fuzz targets. A target reads an input as a program would read a file or a line that somebody else wrote, and
// checks what must hold of the result. libFuzzer calls it (driver.cpp), and a test replays the corpora through it
// (replay_test.cpp).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace assay::fuzz {

using Input = std::span<const std::byte>;

// Borrows the input.
inline std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// A reader refuses an input with Error, the base of the project's exceptions. All else that leaves `read` is a finding.
struct Target {
  std::string_view name;  // of its file here and of its corpus
  void (*read)(Input input);
};

// Every target that is linked, in no order.
std::span<const Target> targets();
// Reads the input, and takes refusals.
void run(const Target& target, Input input);

// Throws std::logic_error with the text: a finding.
void require(bool holds, const char* what);

// A file with these bytes, for readers that take a path. One for each process, in memory where the system has such a
// folder; the next call replaces it.
const std::filesystem::path& file_with(Input input);
// A folder of this process, for readers that take more than one file. Gone when the process ends as it should.
const std::filesystem::path& scratch();

// Makes the target known before main() begins: `const Registration here("npy", [](Input input) {...});`
class Registration {
 public:
  Registration(std::string_view name, void (*read)(Input input));
};

}  // namespace assay::fuzz
