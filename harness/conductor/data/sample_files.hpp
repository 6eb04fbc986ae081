// Parsers of publishers' sample files: IDX, CIFAR-10 and labels in .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

// The IDX format of MNIST: http://yann.lecun.com/exdb/mnist, "the IDX file format". Supports only unsigned
// bytes, which all published sets have.
struct IdxArray {
  Shape shape;
  std::vector<std::byte> bytes;  // u8, in the number of the shape
};

// Reads a plain or gzip file. Checks the magic number, the element type, every dimension and the exact
// length. Rejects a file or a header with more than `max_bytes` bytes (header and elements) before it is
// inflated. Throws IoError.
IdxArray read_idx(const std::filesystem::path& path, std::uint64_t max_bytes);
// The shape in its header; reads only the beginning, and checks the length of a plain file. Throws IoError.
Shape read_idx_shape(const std::filesystem::path& path);
// read_idx() of bytes that were read from `path` and inflated.
IdxArray parse_idx(std::vector<std::byte> content, const std::filesystem::path& path);

// Writes a plain file, for fixtures.
void write_idx(const std::filesystem::path& path, const IdxArray& array);

// The binary version of CIFAR-10 (Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html): files of
// samples without a header. A sample is one byte of label, 0 to 9, and 3072 bytes of image: 32 rows of 32 red
// values, then green, then blue, which is the layout (3, 32, 32).
constexpr std::int64_t cifar10_image_bytes = 3 * 32 * 32;
constexpr std::int64_t cifar10_classes = 10;

// Appends the images and labels of one file. It must contain exactly `samples` samples, with labels below 10.
// Throws IoError naming `path`.
void parse_cifar10(std::span<const std::byte> bytes, const std::filesystem::path& path, std::int64_t samples,
                   std::vector<std::byte>& images, std::vector<std::int32_t>& labels);

// batches.meta.txt: ten lines with one name each, then only empty lines. Throws IoError naming `path`.
std::vector<std::string_view> parse_cifar10_names(std::string_view text, const std::filesystem::path& path);

// Labels as whole numbers of any type that numpy saved.

struct NpyLabels {
  std::vector<std::int32_t> labels;  // (N), or (N, positions)
  std::int64_t positions = 0;        // of (N, positions); 0: (N)
};

// Names label i of all of them: "label 7", or "label 1 of sample 3".
std::string label_name(std::size_t i, std::int64_t positions);

// The content of a .npy file of bool, i8, u8, i32 or i64, (N) or (N, positions). Throws IoError naming `path` for another
// type or shape, a truncated file, or a number that does not fit in i32.
NpyLabels read_npy_labels(std::span<const std::byte> npy, const std::filesystem::path& path);

}  // namespace assay
