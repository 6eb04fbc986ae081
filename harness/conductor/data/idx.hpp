// The IDX format of MNIST: http://yann.lecun.com/exdb/mnist, "the IDX file format". Only unsigned bytes, as
// all published sets have.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

struct IdxArray {
  Shape shape;
  std::vector<std::byte> bytes;  // u8, as many as the shape says
};

// gzip or plain. Magic number, element type, every dimension and the exact length are checked. Throws
// IoError.
IdxArray read_idx(const std::filesystem::path& path);
// The same of bytes that were read from `path` and inflated.
IdxArray parse_idx(std::vector<std::byte> content, const std::filesystem::path& path);

// Plain; for fixtures.
void write_idx(const std::filesystem::path& path, const IdxArray& array);

}  // namespace assay
