// What all forks of a run share.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/run/cell_folder.hpp"

namespace assay {

class Exams;

// Borrows everything.
struct ForkContext {
  std::filesystem::path scratch;  // cell folders are made in it and removed after the fork
  const BackendRegistry& registry;
  const RunSettings& settings;
  DatasetShelf& data;
  Exams& exams;
  bool keep_folders = false;
  ConversationWatch watch{};
  // When the conversations of a fork must be over; absent: only their phases have limits.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  int lane = 0;  // of checks side by side, from 0
};

}  // namespace assay
