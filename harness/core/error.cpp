#include "harness/core/error.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

#include <fmt/format.h>

namespace assay {

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

// A copy that ends early is an input/output error for the library, whatever the cause.
bool is_full(std::filesystem::path path) {
  constexpr std::uintmax_t little = 64 << 10;
  std::error_code error;
  std::filesystem::space_info space = std::filesystem::space(path, error);
  while (error && path.has_relative_path()) {
    path = path.parent_path();
    space = std::filesystem::space(path, error);
  }
  return !error && space.available < little;
}

std::string_view remedy(const std::filesystem::filesystem_error& error) {
  const bool is_full_there =
      error.code() == std::errc::io_error && is_full(error.path2().empty() ? error.path1() : error.path2());
  return remedy(is_full_there ? ENOSPC : error.code().value());
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
  if (const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    text += remedy(*of_file);
  return text;
}

std::string remedy_for_memory() {
  struct Limit {
    __rlimit_resource resource;
    std::string_view what, option;
  };
  std::string text;
  for (const Limit& known : {Limit{RLIMIT_AS, "address space", "-v"}, Limit{RLIMIT_DATA, "data", "-d"}}) {
    rlimit limit{};
    if (::getrlimit(known.resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    text += fmt::format("; each process may have {} KiB of {} here: raise it (ulimit {} unlimited)",
                        limit.rlim_cur >> 10, known.what, known.option);
  }
  return text;
}

std::string internal_error(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr)
    return std::string("a fault of the program, please report it: ") + error.what();
  const std::string limit = remedy_for_memory();
  return "out of memory" + (limit.empty() ? "; stop other programs, or measure less" : limit);
}

IoError::IoError(std::string_view operation, std::filesystem::path path, std::string_view what)
    : Error(fmt::format("[{}] {}: {}", operation, path.string(), what)), path_(std::move(path)) {}

IoError::IoError(std::string_view operation, std::filesystem::path path, std::string_view what, int error)
    : IoError(operation, std::move(path),
              fmt::format("{}: {}{}", what, std::generic_category().message(error), remedy(error))) {}

}  // namespace assay
