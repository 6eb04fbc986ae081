#pragma once

#include <exception>
#include <string>

namespace assay {

// What the IoError or other exception says that `read` ends with; "read" where it ends without one.
template <typename Read>
std::string reason_of(Read read) {
  try {
    read();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "read";
}

}  // namespace assay
