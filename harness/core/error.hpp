// The errors that several libraries throw.
//
// Error and the standard library's std::runtime_error (std::system_error, std::filesystem::filesystem_error)
// report the state of the world: bad input, a missing file, a device that refuses. Every other exception
// (std::logic_error, std::bad_alloc, nlohmann's type errors) means a bug of ours or a lack of memory. Only
// the outermost functions of a program catch those and report them as internal errors.
#pragma once

#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace assay {

// Base class of all our errors. The text says what happened, where, and what to do; it is shown to the user
// unchanged. Throw it directly if no caller needs more than the text.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bad operands, bad attributes or a malformed graph.json. The text names the op and the shapes:
// "[linear] got x (32, 784) and weight (10, 128): inner dimensions differ".
class GraphError : public Error {
 public:
  using Error::Error;
};

// The user asked for something that cannot be done. The text says what, where and what to do; the program
// exits with 2.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// An unknown data set, augmentation or initializer, or samples that cannot be made as requested.
class DataError : public Error {
 public:
  using Error::Error;
};

// A file of a cell folder is missing or malformed, or does not fit the others.
class CellError : public Error {
 public:
  using Error::Error;
};

// what(): "[npy] /cell/plan.npy: the header is cut short after 12 of 118 bytes". path() is the file with the
// error.
class IoError : public Error {
 public:
  IoError(std::string_view operation, std::filesystem::path path, std::string_view what);
  // Adds the text of `error` (an errno) and, if there is one, the remedy.
  IoError(std::string_view operation, std::filesystem::path path, std::string_view what, int error);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Whether no further process or thread can be started here (EAGAIN of fork(2) and of threads).
bool is_limit_of_processes(const std::system_error& error);
// Its text, with the remedy if there is one.
std::string message_of(const std::system_error& error);
// The remedy if no further process or thread can be started.
std::string remedy_for_processes();
// The limits of memory that each process has here, with the remedy; empty if it has none.
std::string remedy_for_memory();

// The text to show for an exception that is neither an Error nor a std::runtime_error.
std::string internal_error(const std::exception& error);

}  // namespace assay
