#include "harness/exec/storage.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "harness/worker/error.hpp"

namespace assay {

Storage::Storage(std::int64_t bytes, const char* purpose) : bytes_(bytes) {
  const auto rounded = (static_cast<std::size_t>(bytes < 1 ? 1 : bytes) + 63) / 64 * 64;
  data_.reset(std::aligned_alloc(64, rounded));
  if (!data_)
    throw OutOfMemory(
        fmt::format("no memory for {} bytes of {}: a smaller batch needs less", bytes, purpose));
}

void Storage::clear() { std::memset(data_.get(), 0, static_cast<std::size_t>(bytes_)); }

void Storage::Free::operator()(void* pointer) const { std::free(pointer); }

}  // namespace assay
