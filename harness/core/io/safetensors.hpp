// The safetensors format (https://github.com/huggingface/safetensors): named tensors in one file, F64, F32,
// BF16, I32 and U8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/core/io/file.hpp"
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

// A file of published weights, mapped. Its tensors may have any type; those of F32, BF16 and F16 can be read.
class WeightsFile {
 public:
  // Checks the header as read_safetensors() does. Throws IoError.
  explicit WeightsFile(const std::filesystem::path& path);

  bool has(const std::string& name) const;
  // As the file has it: "F16 (4, 3)". Throws IoError if the file has no such tensor.
  std::string type_text(const std::string& name) const;
  // The tensor in f32. Throws IoError if it has another type or shape, before it is copied, or a value that
  // find_unusable() finds.
  HostTensor read(const std::string& name, const Shape& shape) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::span<const std::byte> data_;
  std::map<std::string, std::string, std::less<>> entries_;  // the JSON of each tensor
};

// Whether the file is not a safetensors file but JSON: the index of a model in several files.
bool is_weights_index(const std::filesystem::path& path);
// The file of each tensor: the member "weight_map" of an index; the files are in the index's folder. Throws IoError.
std::map<std::string, std::filesystem::path, std::less<>> read_weights_index(
    const std::filesystem::path& path);

}  // namespace assay
