// Which files a worker can reach, enforced by the kernel (Landlock): what a worker is judged by is out of its reach.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/core/io/file.hpp"

namespace assay {

// A worker may read and change whatever its user may, except what is below these folders.
struct Confinement {
  std::vector<std::filesystem::path> unreadable;  // it cannot open a file below
  std::vector<std::filesystem::path> unwritable;  // it cannot make, change or remove anything below
  std::vector<std::filesystem::path> own;         // all is allowed below, even within the others

  bool empty() const { return unreadable.empty() && unwritable.empty(); }
};

// Whether this kernel can confine a process.
bool can_confine();

// Rules made by the parent and taken on by its child. New entries cannot be made in a folder that contains one that is
// unwritable: what is allowed for a folder is allowed for everything below it.
class ConfinementRules {
 public:
  // Folders that do not exist are left out. Without Landlock, or with nothing to confine, there are no rules.
  explicit ConfinementRules(const Confinement& confinement);

  // Confines this process and its children for good; async-signal-safe. False with errno set where the kernel refuses.
  bool enter() const;

 private:
  Descriptor rules_{};
};

}  // namespace assay
