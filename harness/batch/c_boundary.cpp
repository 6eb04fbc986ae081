#include "harness/batch/c_boundary.hpp"

#include <algorithm>
#include <cstring>

namespace assay::boundary {
namespace {

thread_local std::array<char, 2048> last_error = {};

}  // namespace

void remember(const char* text) noexcept {
  const std::size_t size = std::min(std::strlen(text), last_error.size() - 1);
  std::memcpy(last_error.data(), text, size);
  last_error[size] = '\0';
}

const char* remembered() noexcept { return last_error.data(); }

}  // namespace assay::boundary
