#pragma once

#include <exception>
#include <string>

namespace assay {

// The message of the IoError or other exception that `read` throws; "read" if it throws none.
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
