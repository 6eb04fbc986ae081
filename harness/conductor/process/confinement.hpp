// Restricts the files and signals of a worker with the kernel's Landlock, so that it cannot reach the files that it is
// judged by, or stop the program that judges it.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/io/file.hpp"

namespace assay {

// A worker may read and change everything that its user may, except below these folders. If the kernel can, it may send
// signals only to itself and the processes that it starts.
struct Confinement {
  std::vector<std::filesystem::path> unreadable;  // it cannot open a file below these
  std::vector<std::filesystem::path> unwritable;  // it cannot create, change or remove anything below these
  std::vector<std::filesystem::path> own;  // everything is allowed below these, even within the other folders
  bool connects = true;  // false: it opens no TCP connection, and listens to none (Linux 6.7)

  bool empty() const { return unreadable.empty() && unwritable.empty(); }
};

// Whether this kernel can confine the files of a process (Linux 6.2), and its signals (Linux 6.12).
bool can_confine();
bool can_confine_signals();
// What protects this program and its files from workers, for the report: "landlock", or what is missing.
std::string confined_by();

// Rules that the parent makes and its child enters (start_child). No entry can be created in a folder that contains an
// unwritable folder, because a right on a folder applies to everything below it.
class ConfinementRules {
 public:
  // Skips folders that do not exist. There are no rules without Landlock or with an empty confinement.
  explicit ConfinementRules(const Confinement& confinement);

  int descriptor() const { return rules_.get(); }  // -1: no rules

 private:
  Descriptor rules_{};
};

}  // namespace assay
