#include "harness/conductor/check/tensor_file.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/safetensors.hpp"

namespace assay {

TensorFile::TensorFile(std::filesystem::path path, std::vector<HostTensor> tensors) : path_(std::move(path)) {
  for (HostTensor& tensor : tensors) {
    std::string name = tensor.name;
    tensors_.emplace(std::move(name), std::move(tensor));
  }
}

TensorFile TensorFile::read(const std::filesystem::path& path) { return {path, read_safetensors(path)}; }

TensorFile TensorFile::read_foreign(const std::filesystem::path& path, std::uint64_t limit) {
  return {path, read_foreign_safetensors(path, limit)};
}

std::vector<double> TensorFile::read_array(const std::filesystem::path& path) {
  return to_doubles(read_npy(path));
}

std::vector<std::string> TensorFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const HostTensor* TensorFile::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void TensorFile::put(HostTensor tensor) {
  std::string name = tensor.name;
  tensors_.insert_or_assign(std::move(name), std::move(tensor));
}

std::vector<double> TensorFile::required(std::string_view name) const {
  const HostTensor* tensor = find(name);
  if (tensor == nullptr) throw CellError(fmt::format("[check] {} has no tensor '{}'", path_.string(), name));
  return to_doubles(*tensor);
}

std::vector<double> TensorFile::required(std::string_view name,
                                         const std::optional<ExamExcerpt>& excerpt) const {
  if (!excerpt) return required(name);
  const auto chosen = [&excerpt](auto all) -> std::vector<double> {
    const std::int64_t size = std::ssize(all);
    const auto part = all.subspan(static_cast<std::size_t>(excerpt->first(size)),
                                  static_cast<std::size_t>(excerpt->count(size)));
    return {part.begin(), part.end()};
  };
  // States are F32 and large: only what is chosen is converted.
  if (const HostTensor* tensor = find(name); tensor != nullptr && tensor->type.dtype == DType::f32)
    return chosen(tensor->as<float>());
  const std::vector<double> all = required(name);
  return chosen(std::span<const double>(all));
}

std::string TensorFile::mistyped(std::string_view name, const TensorType& type) const {
  const HostTensor* tensor = find(name);
  if (tensor == nullptr) return "is missing in the worker's file";
  const bool scalar = type.shape.empty() && tensor->type.shape == Shape{1};
  if (tensor->type.dtype != type.dtype || (tensor->type.shape != type.shape && !scalar)) {
    return fmt::format("is {}, but must be {}", to_string(tensor->type), to_string(type));
  }
  return {};
}

std::string TensorFile::refusal(std::string_view name, const TensorType& type) const {
  if (std::string why = mistyped(name, type); !why.empty()) return why;
  if (!is_floating(type.dtype)) return {};
  const std::vector<double> values = to_doubles(*find(name));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return fmt::format("is not finite: element {} is {}", i, values[i]);
  }
  return {};
}

}  // namespace assay
