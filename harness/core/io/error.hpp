// The one error of everything that reads or writes files.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "harness/core/error.hpp"

namespace assay {

// what(): "[npy] /cell/plan.npy: the header is cut short after 12 of 118 bytes". path() is the file that was
// at fault.
class IoError : public Error {
 public:
  IoError(std::string_view operation, std::filesystem::path path, std::string_view what);
  // Adds the text of `error` (an errno) and, where there is one, the remedy.
  IoError(std::string_view operation, std::filesystem::path path, std::string_view what, int error);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace assay
