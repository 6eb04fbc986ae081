#include "harness/conductor/data/preparation.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/batch/source.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/synthetic.hpp"
#include "harness/conductor/data/synthetic_tokens.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr std::string_view version = "assay-prepared/4";  // of the cache's content; part of the key
constexpr std::int64_t max_synthetic_bytes = std::int64_t{96} << 20;
constexpr std::int64_t min_synthetic = 1500;

std::filesystem::path place(const std::filesystem::path& cache, std::string_view name,
                            std::string_view checksum) {
  return std::filesystem::absolute(cache) / "datasets" / fmt::format("{}-{}", name, checksum.substr(0, 16));
}

std::filesystem::path sum_file(const std::filesystem::path& folder) { return folder / "checksum"; }

// Of the manifest and the arrays.
std::string checksum_of_arrays(const std::filesystem::path& folder, const Manifest& manifest,
                               const std::filesystem::path& cache) {
  std::set<std::filesystem::path> arrays{folder / "data" / "manifest.json"};
  for (const auto& [name, split] : manifest.splits) {
    arrays.insert(split.inputs);
    arrays.insert(split.labels);
  }
  const DatasetFiles files{folder, {arrays.begin(), arrays.end()}};
  return provenance_of(files, FileStamps(files), cache).checksum.value();
}

// The manifest in the cache, if all files are present and as they were written; otherwise nullopt: prepare the set
// again.
std::optional<Manifest> kept(const std::filesystem::path& folder, const std::filesystem::path& cache) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "data" / "manifest.json", ignored)) return std::nullopt;
  try {
    SourceOpener opener(read_manifest(folder));
    for (const auto& [name, split] : opener.manifest().splits) opener.open(name);
    if (read_text(sum_file(folder)) != checksum_of_arrays(folder, opener.manifest(), cache))
      return std::nullopt;
    return opener.manifest();
  } catch (const Error&) {
    return std::nullopt;
  }
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw IoError("cache", folder, "cannot be created; name another folder with ASSAY_CACHE", error.value());
}

// The list of an encoded split: its folder, then one file per line.
void write_list(const std::filesystem::path& path, const LoadedArrays& images) {
  std::string text = std::filesystem::absolute(images.folder).string() + "\n";
  if (std::ranges::count(text, '\n') > 1)
    throw IoError("jpeg", images.folder, "has a line break in its path; rename the folder");
  for (const std::filesystem::path& file : images.files) {
    if (file.string().find('\n') != std::string::npos)
      throw IoError("jpeg", images.folder / file, "has a line break in its name; rename it");
    text += file.string() + "\n";
  }
  write_atomically(path, text);
}

void write_arrays(const std::filesystem::path& folder, const std::string& name, const LoadedArrays& arrays) {
  if (arrays.files.empty())
    write_npy(folder / (name + "-inputs.npy"), arrays.type, arrays.inputs, true);
  else
    write_list(folder / (name + "-inputs.txt"), arrays);
  Shape labels = {arrays.samples()};
  if (arrays.positions > 0) labels.push_back(arrays.positions);
  write_npy(folder / (name + "-labels.npy"), {DType::i32, labels},
            std::span<const std::int32_t>(arrays.labels), true);
}

// Writes each file completely or not at all, and the manifest last. Two processes write the same bytes, so
// their order does not matter.
void keep(const std::filesystem::path& folder, const std::string& name, const LoadedDataset& loaded) {
  make_folder(folder);
  for (const auto& [array, samples] : loaded.arrays) write_arrays(folder, array, samples);
  Manifest manifest;
  manifest.name = name;
  manifest.sample_shape = loaded.sample_shape;
  manifest.classes = loaded.classes;
  manifest.vocabulary = loaded.vocabulary;
  manifest.positions = loaded.arrays.begin()->second.positions;
  manifest.normalisation = {loaded.scale, loaded.shift};
  const bool encoded = !loaded.arrays.begin()->second.files.empty();
  if (encoded) {
    // 256 for 224, as usual.
    manifest.kind = StorageKind::encoded;
    manifest.resize = (std::max(loaded.sample_shape[1], loaded.sample_shape[2]) * 8 + 3) / 7;
  }
  for (const auto& [split, of] : loaded.splits)
    manifest.splits[split] = {of.arrays + (encoded ? "-inputs.txt" : "-inputs.npy"),
                              of.arrays + "-labels.npy", of.first, of.count};
  write_manifest(folder, manifest);
}

PreparedDataset prepare(const std::string& name, const PrepareOptions& options, const std::string& key,
                        const std::function<LoadedDataset()>& load) {
  const std::filesystem::path folder = place(options.cache, name, sha256(key));
  std::optional<Manifest> manifest = kept(folder, options.cache);
  if (!manifest) {
    // Everything is read and checked before the first byte is written.
    const LoadedDataset loaded = load();
    keep(folder, name, loaded);
    manifest = read_manifest(folder);
    write_atomically(sum_file(folder), checksum_of_arrays(folder, *manifest, options.cache));
  }
  PreparedDataset prepared;
  prepared.manifest = std::move(*manifest);
  return prepared;
}

// Label p of a sample is the label that was drawn for it plus p, modulo the classes.
std::vector<std::int32_t> at_positions(std::span<const std::int32_t> drawn, const Dataset& dataset) {
  std::vector<std::int32_t> labels;
  labels.reserve(drawn.size() * static_cast<std::size_t>(dataset.positions));
  for (const std::int32_t first : drawn)
    for (std::int64_t p = 0; p < dataset.positions; ++p)
      labels.push_back(static_cast<std::int32_t>((first + p) % dataset.classes));
  return labels;
}

// Tokens (N, T) with labels of positions: label p is token p, or that of the last position that there is, modulo the
// classes.
SyntheticTokens tagged(SyntheticTokens data, const Dataset& dataset) {
  const std::int64_t length = element_count(dataset.sample_shape);
  data.labels.clear();
  for (std::size_t first = 0; first < data.inputs.size(); first += static_cast<std::size_t>(length))
    for (std::int64_t p = 0; p < dataset.positions; ++p) {
      const std::size_t at = first + static_cast<std::size_t>(std::min(p, length - 1));
      data.labels.push_back(static_cast<std::int32_t>(data.inputs[at] % dataset.classes));
    }
  return data;
}

// Texts if the set has a vocabulary, otherwise images.
LoadedArrays synthetic_arrays(const Dataset& dataset, const std::string& stream, std::int64_t samples,
                              std::int64_t padding) {
  const bool learnable = dataset.name == "synthetic";
  Shape shape = {samples};
  shape.insert(shape.end(), dataset.sample_shape.begin(), dataset.sample_shape.end());
  const auto loaded = [&](DType dtype, const auto& data) -> LoadedArrays {
    const auto bytes = std::as_bytes(std::span(data.inputs));
    LoadedArrays arrays{{dtype, std::move(shape)}, {bytes.begin(), bytes.end()}, data.labels};
    arrays.positions = dataset.next_token ? element_count(dataset.sample_shape) : dataset.positions;
    if (dataset.positions > 0 && dataset.vocabulary == 0) arrays.labels = at_positions(data.labels, dataset);
    return arrays;
  };
  if (dataset.vocabulary == 0)
    return loaded(DType::u8,
                  make_synthetic({learnable, dataset.sample_shape, dataset.classes, samples}, stream));
  const std::int64_t length = element_count(dataset.sample_shape);
  const SyntheticTokensSpec spec{learnable, length, dataset.vocabulary, dataset.classes, samples, padding};
  if (dataset.positions > 0) return loaded(DType::i32, tagged(make_synthetic_chains(spec, stream), dataset));
  return loaded(DType::i32, dataset.next_token ? make_synthetic_chains(spec, stream)
                                               : make_synthetic_tokens(spec, stream));
}

PreparedDataset prepare_synthetic(Dataset dataset, const PrepareOptions& options) {
  if (!options.sample_shape.empty()) dataset.sample_shape = options.sample_shape;
  if (options.classes > 0) dataset.classes = options.classes;
  // Fewer samples if they are large, so that nobody waits for gigabytes of noise.
  dataset.vocabulary = options.vocabulary;
  dataset.next_token = options.next_token;
  dataset.positions = options.positions;
  constexpr std::int64_t label_bytes = sizeof(std::int32_t);
  const std::int64_t labels = dataset.next_token ? element_count(dataset.sample_shape) : dataset.positions;
  const std::int64_t bytes =
      element_count(dataset.sample_shape) * (dataset.vocabulary > 0 ? 4 : 1) + labels * label_bytes;
  const std::int64_t wanted = dataset.train + dataset.validation + dataset.test;
  const std::int64_t max_samples =
      std::max<std::int64_t>(max_synthetic_bytes / std::max<std::int64_t>(bytes, 1), min_synthetic);
  if (max_samples < wanted)
    for (std::int64_t* count : {&dataset.train, &dataset.validation, &dataset.test})
      *count = *count * max_samples / wanted;
  std::string description =
      fmt::format("{} {} {} classes {} samples {} {} {}", version, dataset.name, dataset.classes,
                  to_string(dataset.sample_shape), dataset.train, dataset.validation, dataset.test);
  if (dataset.vocabulary > 0) description += fmt::format(" vocabulary {}", dataset.vocabulary);
  if (options.padding >= 0) description += fmt::format(" padding {} at the end", options.padding);
  if (dataset.next_token) description += " next token";
  if (dataset.positions > 0)
    description += fmt::format(" labels {}{}", dataset.positions, dataset.vocabulary > 0 ? " of tokens" : "");
  PreparedDataset prepared = prepare(dataset.name, options, description, [&] {
    LoadedDataset loaded;
    const auto arrays = [&](const std::string& stream, std::int64_t samples) {
      return synthetic_arrays(dataset, stream, samples, options.padding);
    };
    loaded.set_splits(arrays("train", dataset.train + dataset.validation), dataset.validation,
                      arrays("test", dataset.test));
    loaded.sample_shape = dataset.sample_shape;
    loaded.classes = dataset.classes;
    loaded.vocabulary = dataset.vocabulary;
    if (dataset.vocabulary == 0) loaded.scale = {1.0f / 255};
    return loaded;
  });
  prepared.provenance.checksum = sha256(description);
  prepared.provenance.checksum_of = "description: " + description;
  return prepared;
}

}  // namespace

namespace {

// What is at a place of the set, if anything: " (Permission denied)", " (there are labels.npy and inputs.npy/)".
std::string what_is_at(const std::filesystem::path& place) {
  constexpr std::size_t max_named = 5;
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(place, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    names.push_back(entry->path().filename().string() + (entry->is_directory(ignored) ? "/" : ""));
  }
  const bool absent = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error) return absent ? "" : fmt::format(" ({})", error.message());
  if (names.empty()) return " (it is empty)";
  std::ranges::sort(names);
  const std::size_t named = std::min(names.size(), max_named);
  return fmt::format(" (there {} {}{})", names.size() == 1 ? "is" : "are",
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                     names.size() > named ? fmt::format(" and {} more", names.size() - named) : "");
}

}  // namespace

DatasetRecord PreparedDataset::record(const std::string& name) const {
  DatasetRecord record{provenance};
  record.name = name;
  record.sample_shape = manifest.sample_shape;
  record.classes = manifest.classes;
  for (const auto& [split, of] : manifest.splits) record.splits[split] = of.count;
  return record;
}

std::string why_nothing_is_learned(const Manifest& manifest) {
  const Split& train = manifest.splits.at("train");
  if (manifest.positions > 0 || train.count < 1) return "";
  SourceOpener opener(manifest);
  const auto source = opener.open("train");
  const std::int32_t label = source->label(0);
  for (std::int64_t i = 1; i < train.count; ++i)
    if (source->label(i) != label) return "";
  return fmt::format("all {} of {} are of class {}: there is nothing to learn, and the loss becomes zero",
                     plural(train.count, "training sample"), manifest.name, label);
}

std::string why_missing(const Dataset& dataset, std::span<const std::filesystem::path> folders) {
  std::vector<std::filesystem::path> looked_in;
  if (dataset.made_here() || find_dataset_files(dataset, folders, &looked_in)) return "";
  std::vector<std::string> names;
  for (const std::filesystem::path& folder : looked_in) names.push_back(folder.string() + what_is_at(folder));
  return fmt::format("[dataset] {} is missing: {} were not found in {}; {}", dataset.name,
                     dataset.format->wanted(), fmt::join(names, ", "), dataset.remedy);
}

PreparedDataset prepare_stored_dataset(const Dataset& dataset, const PrepareOptions& options) {
  const auto found = find_dataset_files(dataset, options.folders);
  if (!found) throw DatasetMissing(why_missing(dataset, options.folders));
  dataset.format->check_sizes(dataset, found->files);
  FileStamps stamps(*found);
  Provenance provenance = provenance_of(*found, stamps, options.cache, {.note = options.note});
  Dataset wanted = dataset;
  if (wanted.sample_shape.empty()) wanted.sample_shape = options.sample_shape;
  std::string key = fmt::format("{} {} {} {}", version, dataset.format->name(), provenance.checksum.value(),
                                to_string(wanted.sample_shape));
  // The prepared set has only a list of these files.
  if (dataset.format->reads_in_place()) key += " " + stamps.digest();
  PreparedDataset prepared =
      prepare(dataset.name, options, key, [&] { return dataset.format->read(wanted, found->files); });
  if (const std::string change = stamps.change(); !change.empty())
    throw IoError("dataset", found->folder,
                  fmt::format("was changed while it was read: {}; start the run again", change));
  prepared.provenance = std::move(provenance);
  if (dataset.format->reads_in_place()) prepared.in_place = std::move(stamps);
  return prepared;
}

PreparedDataset prepare_dataset(std::string_view name, const PrepareOptions& options) {
  const Dataset& dataset = find_dataset(name);
  return dataset.made_here() ? prepare_synthetic(dataset, options) : prepare_stored_dataset(dataset, options);
}

}  // namespace assay
