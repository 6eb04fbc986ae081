// Folders of JPEG files in the layout of ImageNet: train/<class>/*.JPEG and val/<class>/*.JPEG, and an
// optional test/; or only <class>/*.jpg. Class k is the k-th folder name in byte order. Hidden files and folders are
// left out; other files that look like images, and folders without JPEG files, are errors.
#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/batch/encoded_source.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/in_threads.hpp"
#include "harness/core/domain.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/memory.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t named_files = 3;  // in an error

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// In the order of the names' bytes, without hidden ones.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (!is_hidden(entry->path())) entries.push_back(*entry);
  if (error) throw IoError("jpeg", folder, "cannot be listed", error.value());
  std::ranges::sort(entries, {}, [](const fs::directory_entry& entry) { return entry.path(); });
  return entries;
}

enum class Content { folder, jpeg, other_image, other };

Content content_of(const fs::directory_entry& entry) {
  std::error_code error;
  const bool is_folder = entry.is_directory(error), is_file = !error && entry.is_regular_file(error);
  if (error || (!is_folder && !is_file && !entry.exists(error)))
    throw IoError("jpeg", entry.path(), "is a link to something that does not exist, or cannot be examined");
  if (is_folder) return Content::folder;
  std::string suffix = entry.path().extension().string();
  for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::array<std::string_view, 4> jpeg{".jpeg", ".jpg", ".jpe", ".jfif"};
  constexpr std::array<std::string_view, 11> other{".png", ".webp", ".bmp",  ".gif",  ".tif", ".tiff",
                                                   ".ppm", ".pgm",  ".avif", ".heic", ".jp2"};
  if (!is_file && (contains(jpeg, suffix) || contains(other, suffix)))
    throw IoError("jpeg", entry.path(), "is not a file (a pipe, a socket or a device); remove it");
  if (contains(jpeg, suffix)) return Content::jpeg;
  return contains(other, suffix) ? Content::other_image : Content::other;
}

// "a.png, b.png, c.png and 7 more"
std::string listed(const std::vector<fs::path>& files) {
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(file.filename().string());
  const std::size_t shown = std::min(names.size(), named_files);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

bool has_parts(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "train", ignored) && fs::is_directory(folder / "val", ignored);
}

bool begins_as_jpeg(const fs::path& file) {
  std::array<char, 3> start{};
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && std::ifstream(file).read(start.data(), start.size()) &&
         std::string_view(start.data(), start.size()) == "\xff\xd8\xff";
}

// The JPEG files of one class. Whatever would be left out without a word is an error.
std::vector<fs::path> images_of_class(const fs::path& label) {
  std::vector<fs::path> images, others, unnamed;
  for (const fs::directory_entry& entry : entries_of(label)) {
    switch (content_of(entry)) {
      case Content::jpeg:
        images.push_back(entry.path());
        break;
      case Content::other_image:
        others.push_back(entry.path());
        break;
      case Content::folder:
        throw IoError(
            "jpeg", entry.path(),
            label.filename() == "train"
                ? "is a folder in train, but there is no folder val next to that; put the images for "
                  "validation into val/<class>"
                : "is a folder in the folder of a class, and its files would be left out; the layout is "
                  "train/<class>/*.jpg and val/<class>/*.jpg, or only <class>/*.jpg");
      case Content::other:
        if (begins_as_jpeg(entry.path())) unnamed.push_back(entry.path());
        break;
    }
  }
  if (!others.empty())
    throw IoError(
        "jpeg", label,
        fmt::format("has images of other formats, which would be left out: {}; convert them to JPEG, or "
                    "move them elsewhere",
                    listed(others)));
  if (!unnamed.empty())
    throw IoError(
        "jpeg", label,
        fmt::format("has JPEG files whose names do not end like that, which would be left out: {}; name them "
                    "*.jpg, or move them elsewhere",
                    listed(unnamed)));
  if (images.empty())
    throw IoError(
        "jpeg", label,
        "has no JPEG file (.jpg, .jpeg, .jpe or .jfif), so its class would be empty; remove the folder, "
        "or add images");
  return images;
}

struct ClassFolder {
  std::string name;
  std::vector<fs::path> images;
};

std::vector<ClassFolder> classes_in(const fs::path& part) {
  std::vector<ClassFolder> classes;
  std::vector<fs::path> loose;
  for (const fs::directory_entry& entry : entries_of(part)) {
    const Content content = content_of(entry);
    if (content == Content::folder)
      classes.push_back({entry.path().filename().string(), images_of_class(entry.path())});
    else if (content != Content::other)
      loose.push_back(entry.path());
  }
  if (!loose.empty())
    throw IoError(
        "jpeg", part,
        fmt::format("has images outside of the folders of its classes: {}; move each into the folder of "
                    "its class",
                    listed(loose)));
  return classes;
}

std::vector<fs::path> images_in(const fs::path& part) {
  std::vector<fs::path> images;
  std::error_code ignored;
  if (!fs::is_directory(part, ignored)) return images;
  for (ClassFolder& label : classes_in(part)) std::ranges::move(label.images, std::back_inserter(images));
  return images;
}

std::vector<std::string> names_in(const fs::path& part) {
  std::vector<std::string> names;
  for (const ClassFolder& label : classes_in(part)) names.push_back(label.name);
  return names;
}

// Decodes the images of a set of up to max_decoded_bytes, in threads. Of a larger set, it decodes only files
// without an end marker near their end, because decoding ImageNet takes an hour. Throws IoError for the first
// damaged file.
class ImageCheck {
 public:
  explicit ImageCheck(std::span<const fs::path> files) : files_(files) {
    std::uint64_t bytes = 0;
    for (const fs::path& file : files) {
      std::error_code ignored;
      if (const std::uintmax_t size = fs::file_size(file, ignored); !ignored) bytes += size;
    }
    decodes_all_ = bytes <= max_decoded_bytes;
    memory_ = available_memory().value_or(std::numeric_limits<std::int64_t>::max());
  }

  void run() const {
    in_threads(files_.size(), [this](std::size_t i) { check(files_[i]); });
  }

 private:
  static constexpr std::uint64_t max_decoded_bytes = std::uint64_t{1} << 30;

  void check(const fs::path& file) const {
    constexpr std::int64_t bytes_of_pixel =
        9;  // three of the image, six of a progressive JPEG's coefficients
    const MappedFile mapped(file);
    const RgbImage size = read_jpeg_size(mapped.bytes(), file);
    if (const std::int64_t needed = bytes_of_pixel * size.width * size.height; needed > memory_)
      throw IoError(
          "jpeg", file,
          fmt::format("has {} by {} pixels: decoding them takes up to {} bytes, and this machine has {} "
                      "available",
                      size.width, size.height, needed, memory_));
    RgbImage image;
    if (decodes_all_ || !has_end(mapped.bytes())) decode_jpeg(mapped.bytes(), file, image);
  }

  // Some cameras write more after the end marker.
  static bool has_end(std::span<const std::byte> bytes) {
    constexpr std::size_t looked_at = 4096;
    constexpr std::array end{std::byte{0xff}, std::byte{0xd9}};
    const auto last = bytes.last(std::min(bytes.size(), looked_at));
    return !std::ranges::search(last, end).empty();
  }

  std::span<const fs::path> files_;
  bool decodes_all_ = false;
  std::int64_t memory_ = 0;
};

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
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
      if (std::error_code ignored; !is_hidden(entry->path()) && entry->is_directory(ignored)) return true;
    return error == std::errc::permission_denied;  // describe() reports it
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

  bool reads_in_place() const override { return true; }

  bool any_image_size() const override { return true; }

  // Of a large set, some in equal distances: read() looks at all of them.
  void check_sizes(const Dataset&, std::span<const fs::path> files) const override {
    constexpr std::size_t most = 1000;
    const std::size_t step = std::max<std::size_t>(1, files.size() / most);
    for (std::size_t i = 0; i < files.size(); i += step)
      read_jpeg_size(MappedFile(files[i]).bytes(), files[i]);
  }

  SampleKind describe(const DatasetPlace& place) const override {
    return {{}, std::max<std::int64_t>(2, std::ssize(classes(place.folder)))};
  }

  LoadedDataset read(const Dataset& dataset, std::span<const fs::path> files) const override {
    const fs::path folder = common_folder(files);
    const std::vector<std::string> names = classes(folder);
    if (dataset.sample_shape.size() != 3 || dataset.sample_shape[0] != 3)
      throw IoError("jpeg", folder,
                    fmt::format("contains images (3, H, W), but the workload takes {}",
                                to_string(dataset.sample_shape)));
    ImageCheck(files).run();
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
        throw IoError(
            "jpeg", folder,
            fmt::format("has no image for the split {}: {}", split,
                        has_parts(folder) ? "add images to its folder"
                                          : "of ten images of a class, one is for validation and one for "
                                            "test; add images, or make the folders train and val"));
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
  // Throws IoError if there are too many.
  static std::vector<std::string> classes(const fs::path& folder) {
    const fs::path part = has_parts(folder) ? folder / "train" : folder;
    std::vector<std::string> names = names_in(part);
    if (std::ssize(names) > max_classes)
      throw IoError(
          "jpeg", part,
          fmt::format("has {} folders of classes, and at most {} are supported", names.size(), max_classes));
    return names;
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
