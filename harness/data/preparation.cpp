#include "harness/data/preparation.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/data/idx.hpp"
#include "harness/data/synthetic.hpp"
#include "harness/io/error.hpp"
#include "harness/io/npy.hpp"
#include "harness/io/sha256.hpp"

namespace assay {
namespace {

constexpr std::string_view version = "assay-prepared/1";  // of what the cache holds: part of the key
constexpr std::int64_t most_synthetic_bytes = std::int64_t{96} << 20;
constexpr float byte_scale = 1.0f / 255;

// The four arrays of a set in the cache. Each file is written whole or not at all, and two processes write
// the same bytes, so that it does not matter who is last.
struct Cached {
  std::filesystem::path folder;
  std::filesystem::path train_inputs() const { return folder / "train-inputs.npy"; }
  std::filesystem::path train_labels() const { return folder / "train-labels.npy"; }
  std::filesystem::path test_inputs() const { return folder / "test-inputs.npy"; }
  std::filesystem::path test_labels() const { return folder / "test-labels.npy"; }
};

Cached place(const std::filesystem::path& cache, std::string_view name, std::string_view checksum) {
  return {std::filesystem::absolute(cache) / "datasets" / fmt::format("{}-{}", name, checksum.substr(0, 16))};
}

bool holds(const std::filesystem::path& path, const TensorType& type) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return false;
  try {
    return MappedNpy(path).type() == type;
  } catch (const IoError&) {
    return false;  // damaged: it is made anew
  }
}

TensorType inputs_type(const Dataset& dataset, std::int64_t samples) {
  Shape shape = {samples};
  shape.insert(shape.end(), dataset.sample_shape.begin(), dataset.sample_shape.end());
  return {DType::u8, std::move(shape)};
}

bool is_whole(const Cached& cached, const Dataset& dataset) {
  const std::int64_t train = dataset.train + dataset.validation;
  return holds(cached.train_inputs(), inputs_type(dataset, train)) &&
         holds(cached.train_labels(), {DType::u8, {train}}) &&
         holds(cached.test_inputs(), inputs_type(dataset, dataset.test)) &&
         holds(cached.test_labels(), {DType::u8, {dataset.test}});
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw IoError("cache", folder, "cannot be created; name another with ASSAY_CACHE", error.value());
}

PreparedDataset describe(const Dataset& dataset, const Cached& cached, std::string checksum,
                         std::filesystem::path source) {
  PreparedDataset prepared;
  Manifest& manifest = prepared.manifest;
  manifest.name = dataset.name;
  manifest.sample_shape = dataset.sample_shape;
  manifest.classes = dataset.classes;
  manifest.scale = {byte_scale};
  manifest.shift = {0};
  manifest.splits["train"] = {cached.train_inputs(), cached.train_labels(), 0, dataset.train};
  manifest.splits["validation"] = {cached.train_inputs(), cached.train_labels(), dataset.train,
                                   dataset.validation};
  manifest.splits["test"] = {cached.test_inputs(), cached.test_labels(), 0, dataset.test};
  prepared.checksum = std::move(checksum);
  prepared.source = std::move(source);
  return prepared;
}

IdxArray read_images(const std::filesystem::path& path, const Dataset& dataset, std::int64_t samples) {
  IdxArray images = read_idx(path);
  const Shape wanted = {samples, dataset.sample_shape[1], dataset.sample_shape[2]};
  if (images.shape != wanted)
    throw IoError(
        "idx", path,
        fmt::format("holds {}, {} has {}", to_string(images.shape), dataset.name, to_string(wanted)));
  return images;
}

IdxArray read_labels(const std::filesystem::path& path, const Dataset& dataset, std::int64_t samples) {
  IdxArray labels = read_idx(path);
  if (labels.shape != Shape{samples})
    throw IoError("idx", path,
                  fmt::format("holds {} labels for {} images", to_string(labels.shape), samples));
  const auto bad = std::find_if(labels.bytes.begin(), labels.bytes.end(), [&](std::byte label) {
    return std::to_integer<std::int64_t>(label) >= dataset.classes;
  });
  if (bad != labels.bytes.end())
    throw IoError("idx", path,
                  fmt::format("label {} is {}, {} has {} classes", bad - labels.bytes.begin(),
                              std::to_integer<int>(*bad), dataset.name, dataset.classes));
  return labels;
}

PreparedDataset prepare_synthetic(Dataset dataset, const PrepareOptions& options) {
  if (!options.sample_shape.empty()) dataset.sample_shape = options.sample_shape;
  if (options.classes > 0) dataset.classes = options.classes;
  // Large samples are fewer: nobody waits for gigabytes of noise.
  const std::int64_t elements = element_count(dataset.sample_shape);
  const std::int64_t wanted = dataset.train + dataset.validation + dataset.test;
  const std::int64_t most =
      std::max<std::int64_t>(most_synthetic_bytes / std::max<std::int64_t>(elements, 1), 3000);
  if (most < wanted)
    for (std::int64_t* count : {&dataset.train, &dataset.validation, &dataset.test})
      *count = *count * most / wanted;
  const std::string description =
      fmt::format("{} {} {} classes {} samples {} {} {}", version, dataset.name, dataset.classes,
                  to_string(dataset.sample_shape), dataset.train, dataset.validation, dataset.test);
  std::string checksum = sha256(description);
  const Cached cached = place(options.cache, dataset.name, checksum);
  if (!is_whole(cached, dataset)) {
    make_folder(cached.folder);
    SyntheticSpec spec{dataset.name == "synthetic", dataset.sample_shape, dataset.classes,
                       dataset.train + dataset.validation};
    const SyntheticData train = make_synthetic(spec, "train");
    spec.samples = dataset.test;
    const SyntheticData test = make_synthetic(spec, "test");
    write_npy(cached.train_inputs(), inputs_type(dataset, dataset.train + dataset.validation),
              std::span<const std::uint8_t>(train.inputs), true);
    write_npy(cached.train_labels(), {DType::u8, {dataset.train + dataset.validation}},
              std::span<const std::uint8_t>(train.labels), true);
    write_npy(cached.test_inputs(), inputs_type(dataset, dataset.test),
              std::span<const std::uint8_t>(test.inputs), true);
    write_npy(cached.test_labels(), {DType::u8, {dataset.test}}, std::span<const std::uint8_t>(test.labels),
              true);
  }
  return describe(dataset, cached, std::move(checksum), {});
}

}  // namespace

PreparedDataset prepare_idx_dataset(const Dataset& dataset, const PrepareOptions& options) {
  std::vector<std::filesystem::path> looked_in;
  const auto files = find_idx_files(dataset, options.folders, &looked_in);
  if (!files) {
    std::vector<std::string> names;
    for (const std::filesystem::path& folder : looked_in) names.push_back(folder.string());
    throw DatasetMissing(fmt::format("[dataset] {} is not here: its four IDX files were looked for in {}; {}",
                                     dataset.name, fmt::join(names, ", "), dataset.remedy));
  }
  Sha256 digest;
  digest.add(version);
  for (const auto& path : {files->train_images, files->train_labels, files->test_images, files->test_labels})
    digest.add(sha256_of_file(path));
  std::string checksum = digest.finish();
  const Cached cached = place(options.cache, dataset.name, checksum);
  if (!is_whole(cached, dataset)) {
    const std::int64_t train = dataset.train + dataset.validation;
    // All is read and checked before the first byte is written.
    const IdxArray train_images = read_images(files->train_images, dataset, train);
    const IdxArray train_labels = read_labels(files->train_labels, dataset, train);
    const IdxArray test_images = read_images(files->test_images, dataset, dataset.test);
    const IdxArray test_labels = read_labels(files->test_labels, dataset, dataset.test);
    make_folder(cached.folder);
    write_npy(cached.train_inputs(), inputs_type(dataset, train), train_images.bytes, true);
    write_npy(cached.train_labels(), {DType::u8, {train}}, train_labels.bytes, true);
    write_npy(cached.test_inputs(), inputs_type(dataset, dataset.test), test_images.bytes, true);
    write_npy(cached.test_labels(), {DType::u8, {dataset.test}}, test_labels.bytes, true);
  }
  return describe(dataset, cached, std::move(checksum), files->train_images.parent_path());
}

PreparedDataset prepare_dataset(std::string_view name, const PrepareOptions& options) {
  const Dataset& dataset = find_dataset(name);
  return dataset.remedy.empty() ? prepare_synthetic(dataset, options) : prepare_idx_dataset(dataset, options);
}

}  // namespace assay
