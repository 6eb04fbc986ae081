// The safetensors format (https://github.com/huggingface/safetensors): named tensors in one file, F64, F32,
// BF16, I32 and U8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

using SafetensorsMetadata = std::map<std::string, std::string>;

// Atomic. Writes the tensors in the given order. Throws IoError if a name repeats or is not UTF-8.
void write_safetensors(const std::filesystem::path& path, std::span<const HostTensor> tensors,
                       const SafetensorsMetadata& metadata = {});

// Returns the tensors in the order of their bytes. Checks every field of the header: sizes against shapes,
// overlaps, holes, bounds, duplicate names. Throws IoError naming the tensor.
std::vector<HostTensor> read_safetensors(const std::filesystem::path& path,
                                         SafetensorsMetadata* metadata = nullptr);
// The same for a file that another program wrote, of at most `limit` bytes: see read_foreign_file().
std::vector<HostTensor> read_foreign_safetensors(const std::filesystem::path& path, std::uint64_t limit);
// Only the tensors with these names. The others may have types that are not listed above.
std::vector<HostTensor> read_named_safetensors(const std::filesystem::path& path,
                                               const std::set<std::string, std::less<>>& names);

}  // namespace assay
