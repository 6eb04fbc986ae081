// Folders of JPEG files in the layout of ImageNet: train/<class>/*.JPEG and val/<class>/*.JPEG, and an
// optional test/; or only <class>/*.jpg. Class k is the k-th folder name in byte order.
#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "harness/batch/encoded_source.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_entries(const fs::path& folder, bool folders) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (folders ? entry.is_directory(ignored) : entry.is_regular_file(ignored))
      entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_jpeg(const fs::path& file) {
  std::string suffix = file.extension().string();
  for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return suffix == ".jpeg" || suffix == ".jpg";
}

bool has_parts(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "train", ignored) && fs::is_directory(folder / "val", ignored);
}

std::vector<fs::path> images_in(const fs::path& part) {
  std::vector<fs::path> images;
  for (const fs::path& label : sorted_entries(part, true))
    for (fs::path& file : sorted_entries(label, false))
      if (is_jpeg(file)) images.push_back(std::move(file));
  return images;
}

std::vector<std::string> classes_in(const fs::path& part) {
  std::vector<std::string> names;
  for (const fs::path& label : sorted_entries(part, true)) names.push_back(label.filename().string());
  return names;
}

// The files of a split and their labels, which come from their folders.
struct Images {
  std::vector<fs::path> files;
  std::vector<std::int32_t> labels;
};

class JpegFolderFormat : public DatasetFormat {
 public:
  std::string_view name() const override { return "JPEG"; }
  std::string_view wanted() const override {
    return "train/<class>/*.JPEG and val/<class>/*.JPEG, or <class>/*.jpg,";
  }

  bool here(const fs::path& folder) const override {
    return has_parts(folder) || !sorted_entries(folder, true).empty();
  }

  std::vector<fs::path> find(const fs::path& folder) const override {
    if (!has_parts(folder)) return images_in(folder);
    std::vector<fs::path> files;
    for (const char* part : {"train", "val", "test"}) {
      const std::vector<fs::path> some = images_in(folder / part);
      files.insert(files.end(), some.begin(), some.end());
    }
    return files;
  }

  // ImageNet is 150 GB, and its files are read in place.
  bool sums_contents() const override { return false; }

  bool any_image_size() const override { return true; }

  SampleKind describe(const fs::path& folder) const override {
    return {{}, std::max<std::int64_t>(2, static_cast<std::int64_t>(classes(folder).size()))};
  }

  LoadedDataset read(const Dataset& dataset, std::span<const fs::path> files) const override {
    const fs::path folder = common_folder(files);
    const std::vector<std::string> names = classes(folder);
    if (dataset.sample_shape.size() != 3 || dataset.sample_shape[0] != 3)
      throw IoError("jpeg", folder,
                    fmt::format("contains images (3, H, W), but the workload takes {}",
                                to_string(dataset.sample_shape)));
    for (const fs::path& file : files) read_jpeg_size(MappedFile(file).bytes(), file);
    std::map<std::string, Images> splits;
    if (has_parts(folder)) {
      for (const auto& [split, part] : {std::pair{"train", "train"}, {"validation", "val"}, {"test", "test"}})
        splits[split] = labelled(images_in(folder / part), names, folder / part);
      if (splits["test"].files.empty()) splits["test"] = splits["validation"];
    } else {
      split_in_ten(images_in(folder), names, splits);
    }
    LoadedDataset loaded;
    for (auto& [split, images] : splits) {
      if (images.files.empty())
        throw IoError("jpeg", folder, fmt::format("has no image for the split {}", split));
      loaded.splits[split] = {split, 0, static_cast<std::int64_t>(images.files.size())};
      LoadedArrays arrays;
      arrays.folder = folder;
      for (const fs::path& file : images.files) arrays.files.push_back(file.lexically_relative(folder));
      arrays.labels = std::move(images.labels);
      loaded.arrays[split] = std::move(arrays);
    }
    loaded.sample_shape = dataset.sample_shape;
    loaded.classes = std::max<std::int64_t>(2, static_cast<std::int64_t>(names.size()));
    // Mean and deviation of ImageNet's training images, as in torchvision's models.
    constexpr float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
    loaded.scale.clear();
    loaded.shift.clear();
    for (std::size_t c = 0; c < 3; ++c) {
      loaded.scale.push_back(1 / (255 * deviation[c]));
      loaded.shift.push_back(-mean[c] / deviation[c]);
    }
    return loaded;
  }

 private:
  static std::vector<std::string> classes(const fs::path& folder) {
    return classes_in(has_parts(folder) ? folder / "train" : folder);
  }

  static fs::path common_folder(std::span<const fs::path> files) {
    const fs::path above = files.front().parent_path().parent_path();
    return above.filename() == "train" && has_parts(above.parent_path()) ? above.parent_path() : above;
  }

  static Images labelled(std::vector<fs::path> files, const std::vector<std::string>& names,
                         const fs::path& part) {
    Images images;
    for (const fs::path& file : files) {
      const std::string label = file.parent_path().filename().string();
      const auto found = std::lower_bound(names.begin(), names.end(), label);
      if (found == names.end() || *found != label)
        throw IoError("jpeg", part / label, "is a class without training images");
      images.labels.push_back(static_cast<std::int32_t>(found - names.begin()));
    }
    images.files = std::move(files);
    return images;
  }

  // In each class, of every ten images number 8 is validation, number 9 is test, and the others are training.
  static void split_in_ten(std::vector<fs::path> files, const std::vector<std::string>& names,
                           std::map<std::string, Images>& splits) {
    const Images all = labelled(std::move(files), names, {});
    std::map<std::int32_t, std::size_t> seen;
    for (std::size_t i = 0; i < all.files.size(); ++i) {
      const std::size_t place = seen[all.labels[i]]++ % 10;
      Images& images = splits[place < 8 ? "train" : place == 8 ? "validation" : "test"];
      images.files.push_back(all.files[i]);
      images.labels.push_back(all.labels[i]);
    }
    for (const char* split : {"train", "validation", "test"}) splits[split];
  }
};

}  // namespace

const DatasetFormat& jpeg_folder_format() {
  static const JpegFolderFormat format;
  return format;
}

}  // namespace assay
