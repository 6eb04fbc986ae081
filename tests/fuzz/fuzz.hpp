// Shared by the fuzz targets: libFuzzer gives bytes, the readers may refuse them with IoError and do nothing
// else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "harness/core/error.hpp"

namespace assay {

template <typename Read>
int fuzz(const std::uint8_t* data, std::size_t size, Read read) {
  const std::filesystem::path path = "fuzz";
  try {
    read(std::as_bytes(std::span(data, size)), path);
  } catch (const IoError&) {
  }
  return 0;
}

}  // namespace assay

// The body reads `bytes` (std::span<const std::byte>) that come from `path`.
#define ASSAY_FUZZ(...)                                                                                      \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {                        \
    return assay::fuzz(data, size, [](std::span<const std::byte> bytes, const std::filesystem::path& path) { \
      (void)path;                                                                                            \
      __VA_ARGS__                                                                                            \
    });                                                                                                      \
  }
