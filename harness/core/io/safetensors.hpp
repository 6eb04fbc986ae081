// The safetensors format (https://github.com/huggingface/safetensors): named tensors in one file, F64, F32,
// BF16, I32 and U8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

using SafetensorsMetadata = std::map<std::string, std::string>;

// Atomic. Tensors stand in the file in the order given. Throws IoError for a name that repeats or is not
// UTF-8.
void write_safetensors(const std::filesystem::path& path, std::span<const HostTensor> tensors,
                       const SafetensorsMetadata& metadata = {});

// In the order of their bytes. Every field of the header is checked: sizes against shapes, overlaps, holes,
// bounds, duplicate names. Throws IoError naming the tensor.
std::vector<HostTensor> read_safetensors(const std::filesystem::path& path,
                                         SafetensorsMetadata* metadata = nullptr);
// The same of a file that somebody else wrote, of at most `limit` bytes: see read_foreign_file().
std::vector<HostTensor> read_foreign_safetensors(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace assay
