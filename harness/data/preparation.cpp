#include "harness/data/preparation.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/batch/source.hpp"
#include "harness/data/format.hpp"
#include "harness/data/synthetic.hpp"
#include "harness/data/synthetic_tokens.hpp"
#include "harness/io/error.hpp"
#include "harness/io/npy.hpp"
#include "harness/io/sha256.hpp"

namespace assay {
namespace {

constexpr std::string_view version = "assay-prepared/2";  // of what the cache holds: part of the key
constexpr std::int64_t most_synthetic_bytes = std::int64_t{96} << 20;
constexpr std::int64_t fewest_synthetic = 1500;

std::filesystem::path place(const std::filesystem::path& cache, std::string_view name,
                            std::string_view checksum) {
  return std::filesystem::absolute(cache) / "datasets" / fmt::format("{}-{}", name, checksum.substr(0, 16));
}

// What the cache has, when all of it is there and right: otherwise it is made anew.
std::optional<Manifest> kept(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "data" / "manifest.json", ignored)) return std::nullopt;
  try {
    SourceOpener opener(read_manifest(folder));
    for (const auto& [name, split] : opener.manifest().splits) opener.open(name);
    return opener.manifest();
  } catch (const IoError&) {
    return std::nullopt;
  }
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw IoError("cache", folder, "cannot be created; name another with ASSAY_CACHE", error.value());
}

void write_arrays(const std::filesystem::path& folder, const std::string& name, const LoadedArrays& arrays) {
  write_npy(folder / (name + "-inputs.npy"), arrays.type, arrays.inputs, true);
  write_npy(folder / (name + "-labels.npy"), {DType::i32, {static_cast<std::int64_t>(arrays.labels.size())}},
            std::span<const std::int32_t>(arrays.labels), true);
}

// Each file is written whole or not at all, the manifest last, and two processes write the same bytes, so
// that it does not matter who is last.
void keep(const std::filesystem::path& folder, const std::string& name, const LoadedDataset& loaded) {
  make_folder(folder);
  for (const auto& [array, samples] : loaded.arrays) write_arrays(folder, array, samples);
  Manifest manifest;
  manifest.name = name;
  manifest.sample_shape = loaded.sample_shape;
  manifest.classes = loaded.classes;
  manifest.vocabulary = loaded.vocabulary;
  manifest.scale = loaded.scale;
  manifest.shift = loaded.shift;
  for (const auto& [split, of] : loaded.splits)
    manifest.splits[split] = {of.arrays + "-inputs.npy", of.arrays + "-labels.npy", of.first, of.count};
  write_manifest(folder, manifest);
}

PreparedDataset prepare(const std::string& name, const PrepareOptions& options, std::string checksum,
                        std::filesystem::path source, const std::function<LoadedDataset()>& load) {
  const std::filesystem::path folder = place(options.cache, name, checksum);
  std::optional<Manifest> manifest = kept(folder);
  if (!manifest) {
    // All is read and checked before the first byte is written.
    const LoadedDataset loaded = load();
    keep(folder, name, loaded);
    manifest = read_manifest(folder);
  }
  return {std::move(*manifest), std::move(checksum), std::move(source)};
}

// Images or, where the set has a vocabulary, texts.
LoadedArrays synthetic_arrays(const Dataset& dataset, const std::string& stream, std::int64_t samples) {
  const bool learnable = dataset.name == "synthetic";
  Shape shape = {samples};
  shape.insert(shape.end(), dataset.sample_shape.begin(), dataset.sample_shape.end());
  const auto loaded = [&](DType dtype, const auto& data) -> LoadedArrays {
    const auto bytes = std::as_bytes(std::span(data.inputs));
    return {{dtype, std::move(shape)}, {bytes.begin(), bytes.end()}, data.labels};
  };
  if (dataset.vocabulary == 0)
    return loaded(DType::u8,
                  make_synthetic({learnable, dataset.sample_shape, dataset.classes, samples}, stream));
  const std::int64_t length = element_count(dataset.sample_shape);
  return loaded(DType::i32, make_synthetic_tokens(
                                {learnable, length, dataset.vocabulary, dataset.classes, samples}, stream));
}

PreparedDataset prepare_synthetic(Dataset dataset, const PrepareOptions& options) {
  if (!options.sample_shape.empty()) dataset.sample_shape = options.sample_shape;
  if (options.classes > 0) dataset.classes = options.classes;
  // Large samples are fewer: nobody waits for gigabytes of noise.
  dataset.vocabulary = options.vocabulary;
  const std::int64_t bytes = element_count(dataset.sample_shape) * (dataset.vocabulary > 0 ? 4 : 1);
  const std::int64_t wanted = dataset.train + dataset.validation + dataset.test;
  const std::int64_t most =
      std::max<std::int64_t>(most_synthetic_bytes / std::max<std::int64_t>(bytes, 1), fewest_synthetic);
  if (most < wanted)
    for (std::int64_t* count : {&dataset.train, &dataset.validation, &dataset.test})
      *count = *count * most / wanted;
  std::string description =
      fmt::format("{} {} {} classes {} samples {} {} {}", version, dataset.name, dataset.classes,
                  to_string(dataset.sample_shape), dataset.train, dataset.validation, dataset.test);
  if (dataset.vocabulary > 0) description += fmt::format(" vocabulary {}", dataset.vocabulary);
  return prepare(dataset.name, options, sha256(description), {}, [&] {
    LoadedDataset loaded;
    LoadedArrays train = synthetic_arrays(dataset, "train", dataset.train + dataset.validation);
    loaded.set_splits(std::move(train), dataset.validation, synthetic_arrays(dataset, "test", dataset.test));
    loaded.sample_shape = dataset.sample_shape;
    loaded.classes = dataset.classes;
    loaded.vocabulary = dataset.vocabulary;
    if (dataset.vocabulary == 0) loaded.scale = {1.0f / 255};
    return loaded;
  });
}

}  // namespace

PreparedDataset prepare_stored_dataset(const Dataset& dataset, const PrepareOptions& options) {
  std::vector<std::filesystem::path> looked_in;
  const auto found = find_dataset_files(dataset, options.folders, &looked_in);
  if (!found) {
    std::vector<std::string> names;
    for (const std::filesystem::path& folder : looked_in) names.push_back(folder.string());
    throw DatasetMissing(fmt::format("[dataset] {} is not here: {} were looked for in {}; {}", dataset.name,
                                     dataset.format->wanted(), fmt::join(names, ", "), dataset.remedy));
  }
  Sha256 digest;
  digest.add(version);
  for (const auto& path : found->files) digest.add(sha256_of_file(path));
  return prepare(dataset.name, options, digest.finish(), found->folder,
                 [&] { return dataset.format->read(dataset, found->files); });
}

PreparedDataset prepare_dataset(std::string_view name, const PrepareOptions& options) {
  const Dataset& dataset = find_dataset(name);
  return dataset.made_here() ? prepare_synthetic(dataset, options) : prepare_stored_dataset(dataset, options);
}

}  // namespace assay
