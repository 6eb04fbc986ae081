// The command line, or a file that it names, is not what the program can use: exit code 2.
#pragma once

#include <stdexcept>

namespace assay::cli {

// The text says what was seen, where, and the remedy.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace assay::cli
