#include "harness/conductor/process/confinement.hpp"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/core/text.hpp"

// What the kernel headers of Debian 12 do not define.
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_SCOPE_SIGNAL
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1)
#endif

namespace assay {
namespace {

namespace fs = std::filesystem;
using Rights = std::uint64_t;

constexpr Rights reading = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr Rights writing_files = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE;
constexpr Rights changing_folders = LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                                    LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                    LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                                    LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                                    LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER;
// The rights that a rule for a file (not a folder) may allow.
constexpr Rights of_files = reading | writing_files;

int version() {
  static const long found =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return static_cast<int>(found);
}

// Landlock has all of these rights since version 3, knows TCP since version 4, and scopes signals since version 6.
constexpr int needed_version = 3, version_with_network = 4, version_with_signals = 6;

// landlock_ruleset_attr of version 6. An older kernel gets only its first member.
struct RulesetAttributes {
  std::uint64_t handled_access_fs = 0, handled_access_net = 0, scoped = 0;
};

std::vector<fs::path> existing(const std::vector<fs::path>& folders) {
  std::vector<fs::path> found;
  for (const fs::path& folder : folders) {
    std::error_code failure;
    fs::path path = fs::canonical(folder, failure);
    if (!failure) found.push_back(std::move(path));
  }
  return found;
}

// Best effort: a path that cannot be opened stays forbidden.
void allow(int rules, const char* path, bool is_folder, Rights rights) {
  const Descriptor opened(::open(path, O_PATH | O_CLOEXEC));
  if (opened.get() < 0) return;
  const landlock_path_beneath_attr rule{is_folder ? rights : rights & of_files, opened.get()};
  ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

// Rights, and the paths at and below which they are not granted, relative to a folder; an empty path is the folder itself.
struct Grant {
  Rights rights;
  std::vector<std::string> except;
};
using Grants = std::vector<Grant>;

// For each entry of a folder that a grant excepts, or an entry below it: what is granted there. Of the other entries,
// everything is.
std::map<std::string, Grants, std::less<>> grants_of_entries(const Grants& grants) {
  std::map<std::string, Grants, std::less<>> entries;
  for (const Grant& grant : grants)
    for (const std::string& path : grant.except) entries[path.substr(0, path.find('/'))];
  for (auto& [name, inner] : entries) {
    for (const Grant& grant : grants) {
      Grant own{grant.rights, {}};
      for (const std::string& path : grant.except) {
        if (path == name) own.except.emplace_back();
        if (path.starts_with(name + "/")) own.except.push_back(path.substr(name.size() + 1));
      }
      inner.push_back(std::move(own));
    }
  }
  return entries;
}

// Allows what is granted at and below a folder or file. A folder such as /tmp can have thousands of entries, and each
// start of a worker comes here.
void allow_granted(int rules, const std::string& at, bool is_folder, const Grants& grants) {
  Rights everywhere = 0, elsewhere = 0;
  Grants parts;
  for (const Grant& grant : grants) {
    if (contains(grant.except, "")) continue;
    (grant.except.empty() ? everywhere : elsewhere) |= grant.rights;
    if (!grant.except.empty()) parts.push_back(grant);
  }
  if (everywhere != 0) allow(rules, at.empty() ? "/" : at.c_str(), is_folder, everywhere);
  if (elsewhere == 0) return;
  const auto entries = grants_of_entries(parts);
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(at.empty() ? "/" : at, failure)) {
    // Skips links: the target of a link has its own rules.
    if (entry.is_symlink(failure)) continue;
    const std::string path = entry.path().native();
    const auto found = entries.find(std::string_view(path).substr(at.size() + 1));
    if (found == entries.end())
      allow(rules, path.c_str(), entry.is_directory(failure), elsewhere);
    else
      allow_granted(rules, path, entry.is_directory(failure), found->second);
  }
}

// Their paths from the root.
std::vector<std::string> from_root(const std::vector<fs::path>& folders) {
  std::vector<std::string> found;
  for (const fs::path& folder : existing(folders)) found.push_back(folder.native().substr(1));
  return found;
}

}  // namespace

bool can_confine() { return version() >= needed_version; }
bool can_confine_signals() { return version() >= version_with_signals; }

std::string confined_by() {
  if (!can_confine()) return "nothing: this kernel has no Landlock";
  return can_confine_signals() ? "landlock"
                               : "landlock, but not for signals: Linux 6.12 is the first that can";
}

ConfinementRules::ConfinementRules(const Confinement& confinement) {
  if (confinement.empty() || !can_confine()) return;
  RulesetAttributes handled{.handled_access_fs = reading | writing_files | changing_folders};
  if (can_confine_signals()) handled.scoped = LANDLOCK_SCOPE_SIGNAL;
  constexpr Rights binding_and_connecting =
      3;  // LANDLOCK_ACCESS_NET_BIND_TCP, LANDLOCK_ACCESS_NET_CONNECT_TCP
  if (!confinement.connects && version() >= version_with_network)
    handled.handled_access_net = binding_and_connecting;
  const std::size_t size = can_confine_signals()               ? sizeof handled
                           : version() >= version_with_network ? offsetof(RulesetAttributes, scoped)
                                                               : sizeof handled.handled_access_fs;
  const Descriptor made(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &handled, size, 0)));
  // Above the descriptors that a child moves its own to.
  rules_ = Descriptor(::fcntl(made.get(), F_DUPFD_CLOEXEC, 10));
  if (rules_.get() < 0) throw std::system_error(errno, std::generic_category(), "[worker] landlock");
  allow_granted(rules_.get(), "", true,
                {{reading, from_root(confinement.unreadable)},
                 {writing_files | changing_folders, from_root(confinement.unwritable)}});
  for (const fs::path& folder : existing(confinement.own))
    allow(rules_.get(), folder.c_str(), fs::is_directory(folder), reading | writing_files | changing_folders);
}

}  // namespace assay
