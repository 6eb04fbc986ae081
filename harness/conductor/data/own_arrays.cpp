// Arrays in two files: inputs.npy, u8 or f32 (N, ...), and labels.npy, whole numbers (N) or (N, positions).
// If the data set has a vocabulary, inputs.npy is i32 tokens (N, T), and the samples are in the order training,
// validation, test. Otherwise i % 10 selects the split of sample i.
#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/sample_files.hpp"
#include "harness/core/domain.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/numerics.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/memory.hpp"

namespace assay {
namespace {

constexpr std::int64_t min_samples = 10;

template <typename Wanted>
LoadedArrays pick(const HostTensor& inputs, const NpyLabels& labels, Wanted wanted) {
  const auto samples = static_cast<std::size_t>(inputs.type.shape[0]);
  const std::size_t bytes = inputs.bytes.size() / samples, of_sample = labels.labels.size() / samples;
  LoadedArrays arrays;
  arrays.positions = labels.positions;
  for (std::size_t i = 0; i < samples; ++i) {
    if (!wanted(i)) continue;
    const auto begin = inputs.bytes.begin() + static_cast<std::ptrdiff_t>(i * bytes);
    arrays.inputs.insert(arrays.inputs.end(), begin, begin + static_cast<std::ptrdiff_t>(bytes));
    const auto first = labels.labels.begin() + static_cast<std::ptrdiff_t>(i * of_sample);
    arrays.labels.insert(arrays.labels.end(), first, first + static_cast<std::ptrdiff_t>(of_sample));
  }
  arrays.type = inputs.type;
  arrays.type.shape[0] = arrays.samples();
  return arrays;
}

Shape sample_of(const Shape& shape) { return {shape.begin() + 1, shape.end()}; }

// (N, H, W, 3), or the same with 1 or 4: a network would take H for the channels.
bool is_channels_last(const Shape& shape) {
  constexpr std::int64_t min_extent = 8;
  if (shape.size() != 4 || shape[1] < min_extent || shape[2] < min_extent) return false;
  return shape[3] == 3 || shape[3] == 4 || (shape[3] == 1 && shape[1] == shape[2]);
}

void check_inputs(const NpyHeader& header, const std::filesystem::path& path) {
  const auto reject = [&](std::string_view what, std::string_view remedy) {
    throw IoError(
        "npy", path,
        fmt::format("contains {} {}{}, but must contain u8 ('|u1') or f32 ('<f4') (N, ...) in C order; "
                    "save {}",
                    npy_type_text(header.descr), to_string(header.shape), what, remedy));
  };
  if (header.descr != "|u1" && header.descr != "<f4") reject("", "x.astype(np.float32)");
  if (header.fortran_order) reject(" in Fortran order", "np.ascontiguousarray(x)");
  if (header.shape.size() < 2) reject("", "x.reshape(len(x), -1), or the shape that the network takes");
  if (header.shape.size() > 8) reject("", "an array of at most 8 dimensions");
  for (const std::int64_t extent : header.shape)
    if (extent < 1)
      throw IoError("npy", path, fmt::format("is empty: its shape is {}", to_string(header.shape)));
  if (is_channels_last(header.shape))
    throw IoError(
        "npy", path,
        fmt::format("contains {}, which look like images with the channels last, but samples are (C, H, W); "
                    "save np.ascontiguousarray(x.transpose(0, 3, 1, 2)), or x.reshape(len(x), -1) if they "
                    "are not images",
                    to_string(header.shape)));
  if (header.shape[0] < min_samples)
    throw IoError("npy", path,
                  fmt::format("contains {}; at least {} are needed for three splits",
                              plural(header.shape[0], "sample"), min_samples));
}

void check_tokens(const NpyHeader& header, const Dataset& dataset, const std::filesystem::path& path) {
  const std::int64_t samples = dataset.train + dataset.validation + dataset.test;
  Shape wanted = {samples};
  wanted.insert(wanted.end(), dataset.sample_shape.begin(), dataset.sample_shape.end());
  if (header.descr != "<i4" || header.fortran_order || header.shape != wanted)
    throw IoError(
        "npy", path,
        fmt::format("contains {} {}; {} needs tokens: i32 {} in C order; {}", npy_type_text(header.descr),
                    to_string(header.shape), dataset.name, to_string(wanted), dataset.remedy));
}

// Bytes of elements of `each` bytes. An impossible shape gives a size that no file has.
std::uint64_t bytes_of(const NpyHeader& header, std::uint64_t each) {
  std::uint64_t bytes = each;
  for (const std::int64_t extent : header.shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes))
      return std::numeric_limits<std::uint64_t>::max();
  return bytes;
}

// Rejects an array that this machine cannot hold.
void check_memory(const NpyHeader& header, std::uint64_t bytes, const std::filesystem::path& path) {
  constexpr std::uint64_t copies = 4;  // maximum number of copies of the array while it is read and split
  const auto memory = available_memory();
  if (memory && bytes > static_cast<std::uint64_t>(*memory) / copies)
    throw IoError(
        "npy", path,
        fmt::format("contains {}: reading it takes {} times its size, and this machine has only {} bytes "
                    "available",
                    to_string(header.shape), copies, *memory));
}

// Before the labels are read, which become i32.
void check_label_file(const std::filesystem::path& path) {
  constexpr std::uint64_t max_label_bytes = 8;
  const MappedFile file(path);
  const NpyHeader header = parse_npy_header(file.bytes(), path);
  check_memory(header, bytes_of(header, sizeof(std::int32_t)), path);
  const std::uint64_t bytes = bytes_of(header, max_label_bytes);
  reject_larger("npy", path, std::max(bytes, bytes + header.offset));
}

// Reads the header of the inputs and checks the sizes of both files against it. Does not read the content.
NpyHeader check_headers(const std::filesystem::path& inputs, const std::filesystem::path& labels,
                        const Dataset* tokens) {
  const MappedFile file(inputs);
  NpyHeader header = parse_npy_header(file.bytes(), inputs);
  if (tokens != nullptr)
    check_tokens(header, *tokens, inputs);
  else
    check_inputs(header, inputs);
  const std::uint64_t bytes = bytes_of(header, header.descr == "|u1" ? 1 : 4);
  check_memory(header, bytes, inputs);
  reject_larger("npy", inputs, header.offset + bytes);
  if (file.bytes().size() < header.offset + bytes)
    throw IoError("npy", inputs,
                  fmt::format("is truncated: {} needs {} bytes of data, and it has {}",
                              to_string(header.shape), bytes, file.bytes().size() - header.offset));
  check_label_file(labels);
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

// NaNs hide in some libraries (their ReLU makes zeros of them) and not in others.
void check_values(const HostTensor& inputs, const std::filesystem::path& path) {
  if (inputs.type.dtype != DType::f32) return;
  const std::span<const float> values = inputs.as<float>();
  const std::size_t bad = find_unusable(values);
  if (bad == values.size()) return;
  const std::size_t elements = values.size() / static_cast<std::size_t>(inputs.type.shape[0]);
  throw IoError("npy", path,
                fmt::format("sample {} (element {}) is {}", bad / elements, bad % elements,
                            unusable_text(values[bad])));
}

NpyLabels read_labels(const std::filesystem::path& path) {
  const MappedFile file(path);
  NpyLabels read = read_npy_labels(file.bytes(), path);
  for (std::size_t i = 0; i < read.labels.size(); ++i)
    if (read.labels[i] < 0)
      throw IoError(
          "npy", path,
          fmt::format("{} is {}; labels are whole numbers from 0{}", label_name(i, read.positions),
                      read.labels[i],
                      read.positions > 0 ? ", and a position without one needs a class of its own" : ""));
  return read;
}

// The largest label makes the network's last layer, so a label that is a mistake could take all memory.
void check_classes_of(const NpyLabels& read, const std::filesystem::path& path) {
  constexpr std::int64_t never_doubted = 10'000, classes_of_sample = 100;
  const std::vector<std::int32_t>& labels = read.labels;
  if (labels.empty()) return;
  const auto largest = std::ranges::max_element(labels);
  const std::int64_t classes = std::int64_t{*largest} + 1,
                     samples = std::ssize(labels) / std::max<std::int64_t>(1, read.positions);
  if (classes <= std::min(max_classes, std::max(never_doubted, classes_of_sample * samples))) return;
  const std::set<std::int32_t> different(labels.begin(), labels.end());
  throw IoError(
      "npy", path,
      fmt::format("{} is {}, so the network would have {} classes, of which {} occur in {} samples; at "
                  "most {} classes are supported, and at most {} for each sample: number the classes from 0 "
                  "(np.unique(labels, return_inverse=True)[1])",
                  label_name(static_cast<std::size_t>(largest - labels.begin()), read.positions), *largest,
                  classes, different.size(), samples, max_classes, classes_of_sample));
}

std::int64_t classes_of(std::span<const std::int32_t> labels) {
  return labels.empty() ? 0 : std::int64_t{*std::max_element(labels.begin(), labels.end())} + 1;
}

class OwnArraysFormat : public DatasetFormat {
 public:
  std::string_view name() const override { return "npy"; }
  std::string_view wanted() const override { return "inputs.npy and labels.npy"; }
  std::vector<NamedFile> named() const override { return {{"inputs.npy", ".npy"}, {"labels.npy", ".npy"}}; }

  std::vector<std::filesystem::path> find(const std::filesystem::path& folder) const override {
    std::vector<std::filesystem::path> files = {folder / "inputs.npy", folder / "labels.npy"};
    std::error_code ignored;
    for (const auto& file : files)
      if (!std::filesystem::is_regular_file(file, ignored)) return {};
    return files;
  }

  SampleKind describe(const DatasetPlace& place) const override {
    const std::filesystem::path path = place.file(1, "labels.npy");
    const NpyHeader header = check_headers(place.file(0, "inputs.npy"), path, nullptr);
    const NpyLabels read = read_labels(path);
    check_classes_of(read, path);
    return {sample_of(header.shape), std::max<std::int64_t>(2, classes_of(read.labels)), read.positions};
  }

  void check_sizes(const Dataset& dataset, std::span<const std::filesystem::path> files) const override {
    check_headers(files[0], files[1], dataset.vocabulary > 0 ? &dataset : nullptr);
  }

  LoadedDataset read(const Dataset& dataset, std::span<const std::filesystem::path> files) const override {
    check_headers(files[0], files[1], dataset.vocabulary > 0 ? &dataset : nullptr);
    const HostTensor inputs = read_npy(files[0]);
    const NpyLabels labels = read_labels(files[1]);
    check_classes_of(labels, files[1]);
    const std::int64_t of_sample = std::max<std::int64_t>(1, labels.positions);
    if (const std::int64_t labelled = std::ssize(labels.labels) / of_sample; labelled != inputs.type.shape[0])
      throw IoError("npy", files[1],
                    fmt::format("contains {} for {}", plural(labelled, "label"),
                                plural(inputs.type.shape[0], "input")));
    check_values(inputs, files[0]);
    LoadedDataset loaded =
        dataset.vocabulary > 0 ? texts(dataset, inputs, labels, files) : split_by_number(inputs, labels);
    loaded.sample_shape = sample_of(inputs.type.shape);
    return loaded;
  }

 private:
  static LoadedDataset split_by_number(const HostTensor& inputs, const NpyLabels& labels) {
    LoadedDataset loaded;
    loaded.arrays["train"] = pick(inputs, labels, [](std::size_t i) { return i % 10 < 8; });
    loaded.arrays["validation"] = pick(inputs, labels, [](std::size_t i) { return i % 10 == 8; });
    loaded.arrays["test"] = pick(inputs, labels, [](std::size_t i) { return i % 10 == 9; });
    for (const auto& [split, arrays] : loaded.arrays) loaded.splits[split] = {split, 0, arrays.samples()};
    loaded.classes = std::max<std::int64_t>(2, classes_of(labels.labels));
    if (inputs.type.dtype == DType::u8) loaded.scale = {1.0f / 255};
    return loaded;
  }

  static LoadedDataset texts(const Dataset& dataset, const HostTensor& inputs, const NpyLabels& read,
                             std::span<const std::filesystem::path> files) {
    check_range(inputs, dataset.vocabulary, files[0]);
    const std::vector<std::int32_t>& labels = read.labels;
    if (read.positions > 0)
      throw IoError(
          "npy", files[1],
          fmt::format("has labels of the shape (N, {}); {} needs (N)", read.positions, dataset.name));
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (labels[i] >= dataset.classes)
        throw IoError("npy", files[1],
                      fmt::format("label {} is {}; there are {} classes", i, labels[i], dataset.classes));
    const auto train = static_cast<std::size_t>(dataset.train);
    LoadedDataset loaded;
    loaded.arrays["train"] = pick(inputs, read, [&](std::size_t i) { return i < train; });
    loaded.arrays["test"] = pick(inputs, read, [&](std::size_t i) { return i >= train; });
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
