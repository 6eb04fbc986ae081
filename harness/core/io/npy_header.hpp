// The header of NumPy's .npy format, versions 1.0 to 3.0: numpy/lib/format.py.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "harness/core/tensor.hpp"

namespace assay {

// What every .npy file begins with.
inline constexpr std::string_view npy_magic("\x93NUMPY", 6);

struct NpyHeader {
  std::string descr;  // "<f4", "|O"
  bool fortran_order = false;
  Shape shape;
  std::size_t offset = 0;  // of the data
};

// Reads the header alone: the caller compares type, order and the bytes that follow. Throws IoError naming
// `path`.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::filesystem::path& path);

}  // namespace assay
