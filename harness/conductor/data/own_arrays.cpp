// Arrays in two files: inputs.npy, u8 or f32 (N, ...), and labels.npy, whole numbers (N). If the data set has
// a vocabulary, inputs.npy is i32 tokens (N, T), and the samples are in the order training, validation, test.
// Otherwise i % 10 selects the split of sample i.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/sample_files.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/npy.hpp"

namespace assay {
namespace {

constexpr std::int64_t min_samples = 10;
constexpr std::int32_t max_classes = 1 << 24;

template <typename Wanted>
LoadedArrays pick(const HostTensor& inputs, std::span<const std::int32_t> labels, Wanted wanted) {
  const std::size_t bytes = inputs.bytes.size() / labels.size();
  LoadedArrays arrays;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (!wanted(i)) continue;
    const auto begin = inputs.bytes.begin() + static_cast<std::ptrdiff_t>(i * bytes);
    arrays.inputs.insert(arrays.inputs.end(), begin, begin + static_cast<std::ptrdiff_t>(bytes));
    arrays.labels.push_back(labels[i]);
  }
  arrays.type = inputs.type;
  arrays.type.shape[0] = static_cast<std::int64_t>(arrays.labels.size());
  return arrays;
}

Shape sample_of(const Shape& shape) { return {shape.begin() + 1, shape.end()}; }

void check_inputs(const NpyHeader& header, const std::filesystem::path& path) {
  const bool known = header.descr == "|u1" || header.descr == "<f4";
  if (!known || header.fortran_order || header.shape.size() < 2 || header.shape.size() > 8)
    throw IoError("npy", path,
                  fmt::format("contains '{}' {}, but must contain u8 or f32 (N, ...) in C order",
                              header.descr.substr(0, 40), to_string(header.shape)));
  for (const std::int64_t extent : header.shape)
    if (extent < 1) throw IoError("npy", path, "is empty");
  if (header.shape[0] < min_samples)
    throw IoError("npy", path,
                  fmt::format("contains {} samples; at least {} are needed for three splits", header.shape[0],
                              min_samples));
}

void check_tokens(const NpyHeader& header, const Dataset& dataset, const std::filesystem::path& path) {
  const std::int64_t samples = dataset.train + dataset.validation + dataset.test;
  Shape wanted = {samples};
  wanted.insert(wanted.end(), dataset.sample_shape.begin(), dataset.sample_shape.end());
  if (header.descr != "<i4" || header.fortran_order || header.shape != wanted)
    throw IoError(
        "npy", path,
        fmt::format("contains '{}' {}; {} needs tokens: i32 {} in C order; {}", header.descr.substr(0, 40),
                    to_string(header.shape), dataset.name, to_string(wanted), dataset.remedy));
}

// An impossible shape gives a size that no file has.
std::uint64_t bytes_of(const NpyHeader& header) {
  std::uint64_t bytes = header.descr == "|u1" ? 1 : 4;
  for (const std::int64_t extent : header.shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes))
      return std::numeric_limits<std::uint64_t>::max();
  return bytes;
}

// Reads the header of the inputs and checks the sizes of both files against it. Does not read the content.
NpyHeader check_headers(const std::filesystem::path& inputs, const std::filesystem::path& labels,
                        const Dataset* tokens) {
  constexpr std::uint64_t max_header_bytes = 1 << 17, max_label_bytes = 8;
  constexpr std::uint64_t copies = 4;  // maximum number of copies of the array while it is read and split
  const MappedFile file(inputs);
  NpyHeader header = parse_npy_header(file.bytes(), inputs);
  if (tokens != nullptr)
    check_tokens(header, *tokens, inputs);
  else
    check_inputs(header, inputs);
  const std::uint64_t bytes = bytes_of(header);
  const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > memory / copies)
    throw IoError("npy", inputs,
                  fmt::format("contains {}: reading it takes {} times its size, and this machine has only {}",
                              to_string(header.shape), copies, memory));
  reject_larger("npy", inputs, header.offset + bytes);
  reject_larger("npy", labels,
                static_cast<std::uint64_t>(header.shape[0]) * max_label_bytes + max_header_bytes);
  return header;
}

void check_range(const HostTensor& tokens, std::int64_t vocabulary, const std::filesystem::path& path) {
  const std::span<const std::int32_t> values = tokens.as<std::int32_t>();
  const auto bad = std::find_if(values.begin(), values.end(),
                                [&](std::int32_t token) { return token < 0 || token >= vocabulary; });
  if (bad == values.end()) return;
  const std::int64_t length = tokens.type.shape[1];
  throw IoError("npy", path,
                fmt::format("sample {} contains the token {}, but the vocabulary is {}",
                            (bad - values.begin()) / length, *bad, vocabulary));
}

std::vector<std::int32_t> read_labels(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::vector<std::int32_t> labels = read_npy_labels(file.bytes(), path);
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] < 0 || labels[i] >= max_classes)
      throw IoError("npy", path, fmt::format("label {} is {}", i, labels[i]));
  return labels;
}

std::int64_t classes_of(std::span<const std::int32_t> labels) {
  return labels.empty() ? 0 : std::int64_t{*std::max_element(labels.begin(), labels.end())} + 1;
}

class OwnArraysFormat : public DatasetFormat {
 public:
  std::string_view name() const override { return "npy"; }
  std::string_view wanted() const override { return "inputs.npy and labels.npy"; }

  std::vector<std::filesystem::path> find(const std::filesystem::path& folder) const override {
    std::vector<std::filesystem::path> files = {folder / "inputs.npy", folder / "labels.npy"};
    std::error_code ignored;
    for (const auto& file : files)
      if (!std::filesystem::is_regular_file(file, ignored)) return {};
    return files;
  }

  SampleKind describe(const std::filesystem::path& folder) const override {
    const NpyHeader header = check_headers(folder / "inputs.npy", folder / "labels.npy", nullptr);
    return {sample_of(header.shape),
            std::max<std::int64_t>(2, classes_of(read_labels(folder / "labels.npy")))};
  }

  void check_sizes(const Dataset& dataset, std::span<const std::filesystem::path> files) const override {
    check_headers(files[0], files[1], dataset.vocabulary > 0 ? &dataset : nullptr);
  }

  LoadedDataset read(const Dataset& dataset, std::span<const std::filesystem::path> files) const override {
    check_headers(files[0], files[1], dataset.vocabulary > 0 ? &dataset : nullptr);
    const HostTensor inputs = read_npy(files[0]);
    const std::vector<std::int32_t> labels = read_labels(files[1]);
    if (static_cast<std::int64_t>(labels.size()) != inputs.type.shape[0])
      throw IoError("npy", files[1],
                    fmt::format("contains {} labels for {} inputs", labels.size(), inputs.type.shape[0]));
    LoadedDataset loaded =
        dataset.vocabulary > 0 ? texts(dataset, inputs, labels, files) : split_by_number(inputs, labels);
    loaded.sample_shape = sample_of(inputs.type.shape);
    return loaded;
  }

 private:
  static LoadedDataset split_by_number(const HostTensor& inputs, std::span<const std::int32_t> labels) {
    LoadedDataset loaded;
    loaded.arrays["train"] = pick(inputs, labels, [](std::size_t i) { return i % 10 < 8; });
    loaded.arrays["validation"] = pick(inputs, labels, [](std::size_t i) { return i % 10 == 8; });
    loaded.arrays["test"] = pick(inputs, labels, [](std::size_t i) { return i % 10 == 9; });
    for (const auto& [split, arrays] : loaded.arrays)
      loaded.splits[split] = {split, 0, static_cast<std::int64_t>(arrays.labels.size())};
    loaded.classes = std::max<std::int64_t>(2, classes_of(labels));
    if (inputs.type.dtype == DType::u8) loaded.scale = {1.0f / 255};
    return loaded;
  }

  static LoadedDataset texts(const Dataset& dataset, const HostTensor& inputs,
                             std::span<const std::int32_t> labels,
                             std::span<const std::filesystem::path> files) {
    check_range(inputs, dataset.vocabulary, files[0]);
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (labels[i] >= dataset.classes)
        throw IoError("npy", files[1],
                      fmt::format("label {} is {}; there are {} classes", i, labels[i], dataset.classes));
    const auto train = static_cast<std::size_t>(dataset.train);
    LoadedDataset loaded;
    loaded.arrays["train"] = pick(inputs, labels, [&](std::size_t i) { return i < train; });
    loaded.arrays["test"] = pick(inputs, labels, [&](std::size_t i) { return i >= train; });
    loaded.splits["train"] = {"train", 0, dataset.train};
    loaded.splits["validation"] = {"test", 0, dataset.validation};
    loaded.splits["test"] = {"test", dataset.validation, dataset.test};
    loaded.classes = dataset.classes;
    loaded.vocabulary = dataset.vocabulary;
    return loaded;
  }
};

}  // namespace

const DatasetFormat& own_arrays_format() {
  static const OwnArraysFormat format;
  return format;
}

}  // namespace assay
