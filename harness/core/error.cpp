#include "harness/core/error.hpp"

#include <new>

namespace assay {

std::string internal_error(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  return std::string("a fault of the program, please report it: ") + error.what();
}

}  // namespace assay
