#include "harness/conductor/data/dataset.hpp"

#include <set>
#include <vector>

#include <fmt/format.h>

#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/text_tokens.hpp"
#include "harness/core/error.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr std::int64_t train_samples = 48'000, validation_samples = 12'000, test_samples = 10'000;

// The files that were named themselves; empty if one is missing, and for a set whose contents are known. Without links and
// dots, so that one has a name below the folder of another.
std::vector<std::filesystem::path> files_named_in(const Dataset& dataset,
                                                  std::span<const std::filesystem::path> given) {
  if (dataset.classes > 0) return {};
  const std::vector<NamedFile> wanted = dataset.format->named();
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : given) {
    std::error_code ignored;
    if (files.size() == wanted.size() || !std::filesystem::is_regular_file(path, ignored)) continue;
    const std::string_view end = wanted[files.size()].end;
    const bool is_array = path.native().ends_with(".npy");
    if (end.empty() ? !is_array : path.native().ends_with(end))
      files.push_back(std::filesystem::canonical(path));
  }
  if (files.size() < wanted.size()) files.clear();
  return files;
}

// The places of a set under the searched folders.
std::vector<std::filesystem::path> places_in(const Dataset& dataset,
                                             std::span<const std::filesystem::path> folders) {
  std::vector<std::filesystem::path> places;
  for (const std::filesystem::path& parent : folders) {
    places.push_back(parent / dataset.name);
    if (!dataset.other_place.empty()) places.push_back(parent / dataset.other_place);
  }
  return places;
}

}  // namespace

std::span<const Dataset> datasets() {
  static const std::vector<Dataset> all = {
      {"mnist",
       "Handwritten digits (LeCun et al. 1998)",
       {1, 28, 28},
       10,
       train_samples,
       validation_samples,
       test_samples,
       "scripts/fetch-data mnist",
       &idx_format(),
       0,
       false,
       "MNIST/raw"},
      {"fashion-mnist",
       "Pictures of clothing (Xiao, Rasul & Vollgraf 2017)",
       {1, 28, 28},
       10,
       train_samples,
       validation_samples,
       test_samples,
       "apt-get install dataset-fashion-mnist",
       &idx_format(),
       0,
       false,
       "FashionMNIST/raw"},
      {"cifar10",
       "Small photographs (Krizhevsky 2009), the binary version",
       {3, 32, 32},
       10,
       45'000,
       5'000,
       10'000,
       "scripts/fetch-data cifar10",
       &cifar10_format()},
      {"imdb",
       "Film reviews as word ranks by frequency (Maas et al. 2011), converted from Keras's imdb.npz",
       {token_length},
       2,
       25'000,
       12'500,
       12'500,
       "scripts/fetch-data imdb; to convert an imdb.npz that you have: scripts/fetch-data --convert imdb.npz",
       &own_arrays_format(),
       token_vocabulary},
      {"aclimdb",
       "The same film reviews as text (Maas et al. 2011): the folder aclImdb",
       {token_length},
       2,
       25'000,
       12'500,
       12'500,
       "scripts/fetch-data aclimdb",
       &aclimdb_format(),
       token_vocabulary},
      {"imagenet",
       "ILSVRC 2012 as JPEG files: train/<class>/*.JPEG and val/<class>/*.JPEG",
       {},
       0,
       0,
       0,
       0,
       "for instructions run scripts/fetch-data imagenet; only registered users may download it",
       &jpeg_folder_format()},
      {"images",
       "JPEG files of your own: train/<class>/*.jpg and val/<class>/*.jpg, or <class>/*.jpg",
       {},
       0,
       0,
       0,
       0,
       "put the folders into DIR/images and name it with --data DIR",
       &jpeg_folder_format()},
      {"npy",
       "Arrays of your own: inputs.npy, u8 or f32 (N, C, H, W), and labels.npy, whole numbers (N) or (N, positions)",
       {},
       0,
       0,
       0,
       0,
       "name the files with --inputs FILE.npy --labels FILE.npy, or put inputs.npy and labels.npy into DIR/npy and name "
       "it with --data DIR",
       &own_arrays_format()},
      {"text",
       "A text of your own: its characters, cut into sequences; the label of each is the next character",
       {},
       0,
       0,
       0,
       0,
       "name a text file with --data FILE, or put input.txt into DIR/text and name it with --data DIR",
       &text_format(),
       0,
       true},
      {"synthetic",
       "Synthetic: a pattern for each class under noise, which a network can learn",
       {1, 28, 28},
       10,
       train_samples,
       validation_samples,
       test_samples,
       "",
       nullptr},
      {"synthetic-noise",
       "Synthetic: noise with random labels, which cannot be learned",
       {1, 28, 28},
       10,
       train_samples,
       validation_samples,
       test_samples,
       "",
       nullptr},
  };
  return all;
}

bool Dataset::any_image_size() const { return made_here() || format->any_image_size(); }
bool Dataset::any_sequence_length() const { return made_here() || format->any_sequence_length(); }

const Dataset& find_dataset(std::string_view name) {
  std::vector<std::string> names;
  for (const Dataset& dataset : datasets()) {
    if (dataset.name == name) return dataset;
    names.push_back(dataset.name);
  }
  throw DataError(fmt::format("[dataset] got '{}': unknown data set{}", name, suggestion(name, names)));
}

std::vector<std::filesystem::path> dataset_folders(std::span<const std::filesystem::path> given) {
  std::vector<std::filesystem::path> folders(given.begin(), given.end());
  for (std::filesystem::path& folder : environment_list("ASSAY_DATA")) folders.push_back(std::move(folder));
  const std::string home = environment_text("HOME");
  if (!home.empty()) folders.push_back(std::filesystem::path(home) / ".local/share/datasets");
  folders.emplace_back("/usr/local/share/datasets");
  folders.emplace_back("/usr/share/datasets");
  return folders;
}

std::optional<DatasetFiles> find_dataset_files(const Dataset& dataset,
                                               std::span<const std::filesystem::path> folders,
                                               std::vector<std::filesystem::path>* looked_in) {
  if (std::vector<std::filesystem::path> named = files_named_in(dataset, folders); !named.empty()) {
    std::vector<std::string> names;
    for (const NamedFile& file : dataset.format->named()) names.emplace_back(file.name);
    return DatasetFiles{named.front().parent_path(), std::move(named), std::move(names)};
  }
  for (const std::filesystem::path& place : places_in(dataset, folders)) {
    if (looked_in != nullptr) looked_in->push_back(place);
    DatasetFiles found{place, dataset.format->find(place)};
    if (!found.files.empty()) return found;
  }
  return std::nullopt;
}

std::vector<std::filesystem::path> unread_files(std::span<const std::filesystem::path> given,
                                                const std::set<std::string>& names) {
  std::set<std::filesystem::path> read;
  for (const Dataset& dataset : datasets())
    if (!dataset.made_here() && names.contains(dataset.name)) {
      const std::vector<std::filesystem::path> files = files_named_in(dataset, given);
      read.insert(files.begin(), files.end());
    }
  std::vector<std::filesystem::path> unread;
  std::error_code ignored;
  for (const std::filesystem::path& path : given)
    if (std::filesystem::is_regular_file(path, ignored) && !read.contains(std::filesystem::canonical(path)))
      unread.push_back(path);
  return unread;
}

DatasetPlace locate_dataset(const Dataset& dataset, std::span<const std::filesystem::path> folders) {
  if (dataset.made_here()) return {.here = true};
  if (std::vector<std::filesystem::path> named = files_named_in(dataset, folders); !named.empty())
    return {.here = true, .folder = named.front().parent_path(), .named = std::move(named)};
  for (const std::filesystem::path& place : places_in(dataset, folders))
    if (dataset.format->here(place)) return {.here = true, .folder = place};
  return {.remedy = dataset.remedy};
}

std::string DatasetPlace::text() const {
  if (named.empty()) return folder.string();
  std::vector<std::string> names;
  for (const std::filesystem::path& file : named) names.push_back(file.string());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace assay
