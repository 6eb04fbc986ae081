// A safetensors file, with every tensor readable as double.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/tensor.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {

class TensorFile {
 public:
  TensorFile() = default;
  // Throws CellError naming the file if it is missing or malformed.
  static TensorFile read(const std::filesystem::path& path);
  // The same for a worker's file of at most `limit` bytes.
  static TensorFile read_foreign(const std::filesystem::path& path, std::uint64_t limit);
  // A .npy of doubles.
  static std::vector<double> read_array(const std::filesystem::path& path);

  std::vector<std::string> names() const;  // ascending
  // Null if not found. Valid as long as this object.
  const HostTensor* find(std::string_view name) const;
  // Adds a tensor, or replaces the one of that name.
  void put(HostTensor tensor);
  // Throws CellError if it is missing or not of a floating-point type.
  std::vector<double> required(std::string_view name) const;
  // The same, only the elements of the excerpt.
  std::vector<double> required(std::string_view name, const std::optional<ExamExcerpt>& excerpt) const;
  // Why it is not such a tensor: missing, or another type or shape; empty if it is. A scalar may have the shape (1).
  std::string mistyped(std::string_view name, const TensorType& type) const;
  // Why the tensor cannot be judged: as before, or not finite; empty if it can.
  std::string refusal(std::string_view name, const TensorType& type) const;

 private:
  TensorFile(std::filesystem::path path, std::vector<HostTensor> tensors);

  std::filesystem::path path_;
  std::map<std::string, HostTensor, std::less<>> tensors_;
};

}  // namespace assay
