// The objects that all forks of a run share.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/registries.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/conductor/process/conversation.hpp"

namespace assay {

class CoreWatch;
class Exams;
class Replays;

// Borrows everything.
struct ForkContext {
  std::filesystem::path scratch;  // cell folders are created in it and removed after the fork
  const Registries& registries;
  const RunSettings& settings;
  DatasetShelf& data;
  Exams& exams;
  bool keep_folders = false;
  const PublishedWeights* weights = nullptr;  // null: parameters are drawn
  CoreWatch* cores = nullptr;                 // needed only for timed forks
  ConversationWatch watch{};
  // Latest end of the conversations of a fork; absent: only the phases have limits.
  std::optional<Deadline> deadline{};
  int lane = 0;  // number of the lane of parallel checks, from 0
  // Threads of a timed fork, if it is to have fewer than its cell, on the same processors; it gets the flag fewer_threads.
  std::optional<int> threads{};
  Replays* replays = nullptr;  // null: no run is computed again by another backend
  // Folders and files that no worker may change, in addition to the caches: see protected_paths().
  std::vector<std::filesystem::path> read_only{};
};

}  // namespace assay
