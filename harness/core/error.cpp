#include "harness/core/error.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <new>
#include <system_error>

#include <fmt/format.h>

namespace assay {

std::string internal_error(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  return std::string("a fault of the program, please report it: ") + error.what();
}

namespace {

std::string_view remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space or choose another place";
    case EFBIG:
      return "; the limit on file sizes is reached; raise it (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; choose a place where you may write, or fix its permissions";
    case EMFILE:
      return "; raise the limit on open files (ulimit -n)";
    default:
      return "";
  }
}

}  // namespace

bool is_limit_of_processes(const std::system_error& error) {
  return error.code() == std::errc::resource_unavailable_try_again;
}

std::string remedy_for_processes() {
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return fmt::format(
      "the limit of processes and threads is reached (ulimit -u{}, or pids.max of the control group): raise it, or end "
      "other processes of this user",
      known ? fmt::format(" is {}", limit.rlim_cur) : "");
}

std::string message_of(const std::system_error& error) {
  std::string text = error.what();
  if (is_limit_of_processes(error)) text += "; " + remedy_for_processes();
  return text;
}

IoError::IoError(std::string_view operation, std::filesystem::path path, std::string_view what)
    : Error(fmt::format("[{}] {}: {}", operation, path.string(), what)), path_(std::move(path)) {}

IoError::IoError(std::string_view operation, std::filesystem::path path, std::string_view what, int error)
    : IoError(operation, std::move(path),
              fmt::format("{}: {}{}", what, std::generic_category().message(error), remedy(error))) {}

}  // namespace assay
