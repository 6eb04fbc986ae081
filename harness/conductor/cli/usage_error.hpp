// The command line, or a file that it names, is not what the program can use: exit code 2.
#pragma once

#include "harness/core/error.hpp"

namespace assay::cli {

// The text says what was seen, where, and the remedy.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace assay::cli
