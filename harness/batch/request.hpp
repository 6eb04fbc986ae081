// What request.json asks of the loader and the clock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace assay {

struct LoaderRequest {
  std::string kind = "resident";  // "resident", "harness", "native"
  int workers = 1;
  int prefetch = 4;
  std::int64_t resident_batches = 8;
};

struct ClockRequest {
  enum class Kind { steps, epochs };
  Kind kind = Kind::steps;
  // steps
  std::int64_t min_steps = 10;
  double min_seconds = 0.5;
  double block_seconds = 0.1;
  std::int64_t blocks = 10;
  std::optional<std::int64_t> steps;  // exactly so many timed steps, instead of `blocks`
  // epochs
  int epochs = 0;
  std::vector<std::string> evaluate;  // splits, after each epoch
};

struct BatchRequest {
  std::int64_t batch = 0;
  bool training = true;  // task
  bool op = false;       // a single op: no schedule, no latencies
  LoaderRequest loader;
  ClockRequest clock;
};

// Every field that is used is checked; the others are ignored. Throws IoError naming the field.
BatchRequest read_batch_request(const std::filesystem::path& cell_folder);

}  // namespace assay
