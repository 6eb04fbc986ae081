// Runs the real program and keeps what it said.
#pragma once

#include <sys/resource.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace assay::test {

struct Outcome {
  int code = -1;  // exit status; 128 + signal when it was killed
  std::string out, err;
};

inline constexpr int cannot_hide = 125;

// What is mounted at /proc. Without the permission to change it, the program exits with `cannot_hide`.
enum class Proc { usual, none, of_another_namespace };

struct Invocation {
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment = {};  // over a small fixed one
  std::string input = {};
  std::string redirect_out = {};  // a file for stdout instead of a pipe: "/dev/full"
  Proc proc = Proc::usual;
  rlim_t stack_bytes = 0;         // the limit of its stack, if not 0
  bool stack_is_final = false;    // it cannot raise that limit
  rlim_t data_bytes = 0;          // the limit of its memory, if not 0
  mode_t mask = 022;              // of the permissions of new files
  bool ignores_children = false;  // its parent ignores SIGCHLD, as some supervisors do
};

// In a fresh empty folder, removed afterwards unless `folder` names one.
Outcome assay(const Invocation& invocation, const std::filesystem::path& folder = {});
inline Outcome run(std::vector<std::string> arguments) { return assay({.arguments = std::move(arguments)}); }

// tests/cli/data/<name>
std::filesystem::path data_file(const std::string& name);
std::string read_text(const std::filesystem::path& file);

// A separate folder for a test, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace assay::test
