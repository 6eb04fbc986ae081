#include "tests/cli/program.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace assay::test {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "assay-cli-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::permissions(path_, fs::perms::owner_all, ignored);
  fs::remove_all(path_, ignored);
}

std::string TemporaryFolder::file(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
  return (path_ / name).string();
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

fs::path data_file(const std::string& name) { return fs::path(ASSAY_CLI_DATA) / name; }

// Goes on in a child, the first process of a process namespace; this process ends as the child does.
void go_to_another_namespace() {
  if (unshare(CLONE_NEWPID) != 0) _exit(cannot_hide);
  const pid_t first = fork();
  if (first == 0) return;
  int status = 0;
  if (first < 0 || waitpid(first, &status, 0) != first) _exit(126);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 126);
}

// stdout and stderr go to files, so that no pipe can fill while it is not read.
Outcome assay(const Invocation& invocation, const fs::path& folder) {
  TemporaryFolder files;
  std::optional<TemporaryFolder> own;
  if (folder.empty()) own.emplace();
  const fs::path where = folder.empty() ? own->path() : folder;
  const std::string in = files.file("in", invocation.input), err = (files.path() / "err").string();
  const std::string out =
      invocation.redirect_out.empty() ? (files.path() / "out").string() : invocation.redirect_out;

  std::map<std::string, std::string> environment{
      {"LC_ALL", "C.UTF-8"}, {"HOME", where.string()}, {"PATH", "/usr/bin:/bin"}};
  for (const auto& [name, value] : invocation.environment) environment[name] = value;
  std::vector<std::string> variables, words{ASSAY_PROGRAM};
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  words.insert(words.end(), invocation.arguments.begin(), invocation.arguments.end());
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    const auto redirect = [](const std::string& file, int flags, int to) {
      const int descriptor = open(file.c_str(), flags, 0600);
      if (descriptor < 0 || dup2(descriptor, to) < 0) _exit(126);
    };
    redirect(in, O_RDONLY, 0);
    redirect(out, O_WRONLY | O_CREAT | O_TRUNC, 1);
    redirect(err, O_WRONLY | O_CREAT | O_TRUNC, 2);
    if (chdir(where.c_str()) != 0) _exit(126);
    if (invocation.proc == Proc::none &&
        (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
         mount("none", "/proc", "tmpfs", 0, nullptr) != 0))
      _exit(cannot_hide);
    if (invocation.proc == Proc::of_another_namespace) go_to_another_namespace();
    if (invocation.stack_bytes > 0) {
      const rlimit stack{invocation.stack_bytes,
                         invocation.stack_is_final ? invocation.stack_bytes : RLIM_INFINITY};
      if (setrlimit(RLIMIT_STACK, &stack) != 0) _exit(126);
    }
    if (invocation.data_bytes > 0) {
      const rlimit data{invocation.data_bytes, invocation.data_bytes};
      if (setrlimit(RLIMIT_DATA, &data) != 0) _exit(126);
    }
    umask(invocation.mask);
    if (invocation.ignores_children) signal(SIGCHLD, SIG_IGN);
    execve(ASSAY_PROGRAM, argv.data(), envp.data());
    _exit(127);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  Outcome outcome;
  outcome.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (invocation.redirect_out.empty()) outcome.out = read_text(out);
  outcome.err = read_text(err);
  return outcome;
}

}  // namespace assay::test
