// Restricts the files of a worker with the kernel's Landlock, so that it cannot reach the files that it is
// judged by.
#pragma once

#include <filesystem>
#include <utility>
#include <vector>

#include "harness/core/io/file.hpp"

namespace assay {

// A worker may read and change everything that its user may, except below these folders.
struct Confinement {
  std::vector<std::filesystem::path> unreadable;  // it cannot open a file below these
  std::vector<std::filesystem::path> unwritable;  // it cannot create, change or remove anything below these
  std::vector<std::filesystem::path> own;  // everything is allowed below these, even within the other folders

  bool empty() const { return unreadable.empty() && unwritable.empty(); }
};

// Whether this kernel can confine a process.
bool can_confine();

// Rules that the parent makes and its child enters (start_child). No entry can be created in a folder that contains an
// unwritable folder, because a right on a folder applies to everything below it.
class ConfinementRules {
 public:
  // Skips folders that do not exist. There are no rules without Landlock or with an empty confinement.
  explicit ConfinementRules(const Confinement& confinement);

  int descriptor() const { return rules_.get(); }  // -1: no rules
  // For another process to enter them.
  Descriptor release() { return std::move(rules_); }

 private:
  Descriptor rules_{};
};

}  // namespace assay
