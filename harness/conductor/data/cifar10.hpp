// The binary version of CIFAR-10 (Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html): files of
// samples without a header. A sample is a byte of label, 0 to 9, and 3072 bytes of image: 32 rows of 32 red
// values, then green, then blue, so that it lies as (3, 32, 32) already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace assay {

constexpr std::int64_t cifar10_image_bytes = 3 * 32 * 32;
constexpr std::int64_t cifar10_classes = 10;

// Appends the images and labels of one file. It must hold exactly `samples` of them, all labels below 10.
// Throws IoError naming `path`.
void parse_cifar10(std::span<const std::byte> bytes, const std::filesystem::path& path, std::int64_t samples,
                   std::vector<std::byte>& images, std::vector<std::int32_t>& labels);

// batches.meta.txt: ten lines with a name each, then nothing but empty lines. Throws IoError naming `path`.
std::vector<std::string_view> parse_cifar10_names(std::string_view text, const std::filesystem::path& path);

}  // namespace assay
