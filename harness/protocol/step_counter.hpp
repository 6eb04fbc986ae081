// How many steps of a long block are done, while it runs: two numbers in memory that the worker and the
// conductor share. A worker sends no message within a block.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "harness/protocol/message.hpp"

namespace assay {

inline constexpr const char* step_counter_file = "steps";  // in the cell folder

// Writing a number costs no system call.
class StepCounter {
 public:
  // Creates the file. If that fails, nothing is counted.
  StepCounter(const std::filesystem::path& file, std::int64_t planned);
  ~StepCounter();
  StepCounter(const StepCounter&) = delete;
  StepCounter& operator=(const StepCounter&) = delete;

  void set(std::int64_t done);

 private:
  std::int64_t* numbers_ = nullptr;  // done, planned
};

// Nothing without such a file, or if its numbers cannot be true.
std::optional<protocol::Progress> read_step_counter(const std::filesystem::path& file);

}  // namespace assay
