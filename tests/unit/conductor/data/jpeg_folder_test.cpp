#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/batch/encoded_source.hpp"
#include "harness/batch/loader.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/philox.hpp"
#include "tests/jpeg_file.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/unit/conductor/data/reason_of.hpp"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Three classes of plain colours: 12 images each for training, 2 for validation.
struct Folders {
  TemporaryFolder folder;
  PrepareOptions options;

  Folders() {
    options.folders = {folder / "data"};
    options.cache = folder / "cache";
    options.sample_shape = {3, 16, 16};
    for (int label = 0; label < 3; ++label) {
      for (int i = 0; i < 12; ++i)
        write("train/" + name(label) + "/" + std::to_string(100 + i) + ".JPEG", plain(label, i));
      for (int i = 0; i < 2; ++i)
        write("val/" + name(label) + "/" + std::to_string(i) + ".jpg", plain(label, i));
    }
  }
  static std::string name(int label) { return label == 0 ? "n10" : label == 1 ? "n2" : "Z"; }
  static std::string plain(int label, int i) {
    const auto level = static_cast<std::uint8_t>(10 * i + 5);
    return plain_jpeg(static_cast<unsigned>(24 + i), 20, label == 0 ? 200 : 0, level, label == 2 ? 200 : 0);
  }
  std::filesystem::path home() const { return folder / "data" / "images"; }
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = home() / file;
    std::filesystem::create_directories(path.parent_path());
    write_atomically(path, text, false);
  }
  Manifest prepare() const { return prepare_dataset("images", options).manifest; }
};

TEST(JpegFolder, classes_are_the_folders_in_the_order_of_their_bytes) {
  const Folders folders;
  const Manifest manifest = folders.prepare();
  EXPECT_EQ(manifest.kind, StorageKind::encoded);
  EXPECT_EQ(manifest.classes, 3);
  EXPECT_EQ(manifest.resize, 18) << "16 * 8 / 7";
  EXPECT_EQ(manifest.splits.at("train").count, 36);
  EXPECT_EQ(manifest.splits.at("validation").count, 6);
  EXPECT_EQ(manifest.splits.at("test").count, 6) << "without a folder test it is the validation's";
  SourceOpener opener(manifest);
  const auto train = opener.open("train");
  // Z, n10, n2
  for (std::int32_t i = 0; i < 36; ++i) EXPECT_EQ(train->label(i), i / 12);
  std::vector<float> sample(3 * 16 * 16);
  for (const std::int32_t i : {0, 11, 12, 30}) {
    train->read({i}, sample.data());
    const float raw[] = {i / 12 == 1 ? 200.f : 0.f, static_cast<float>(10 * (i % 12) + 5),
                         i / 12 == 0 ? 200.f : 0.f};
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_NEAR(sample[c * 256 + 100],
                  raw[c] * manifest.normalisation.scale[c] + manifest.normalisation.shift[c],
                  3 * manifest.normalisation.scale[c]);
  }
}

TEST(JpegFolder, without_train_and_val_each_class_is_split_in_tens) {
  const Folders folders;
  const std::filesystem::path home = folders.folder / "data" / "images";
  std::filesystem::rename(home, folders.folder / "all");
  std::filesystem::rename(folders.folder / "all" / "train", home);
  const Manifest manifest = folders.prepare();
  EXPECT_EQ(manifest.splits.at("train").count, 30);
  EXPECT_EQ(manifest.splits.at("validation").count, 3);
  EXPECT_EQ(manifest.splits.at("test").count, 3);
}

TEST(JpegFolder, refuses_a_file_that_is_not_a_jpeg_before_work_begins) {
  const Folders folders;
  folders.write("train/Z/105.JPEG", "\x89PNG\r\n\x1a\n........");
  EXPECT_THAT(reason_of([&] { folders.prepare(); }),
              AllOf(HasSubstr("train/Z/105.JPEG"), HasSubstr("is not a JPEG: it is a PNG")));
  EXPECT_FALSE(std::filesystem::exists(folders.folder / "cache" / "datasets"));
  folders.write("train/Z/105.JPEG", Folders::plain(0, 0));
  folders.write("val/other/0.jpg", Folders::plain(0, 0));
  EXPECT_THAT(reason_of([&] { folders.prepare(); }), HasSubstr("other: is a class without training images"));
}

TEST(JpegFolder, LeavesOutHiddenFilesAndFolders) {
  const Folders folders;
  const Manifest before = folders.prepare();
  folders.write("train/.ipynb_checkpoints/100-checkpoint.JPEG", Folders::plain(0, 0));
  folders.write("train/Z/._100.JPEG", "resource fork");
  folders.write("train/Z/Thumbs.db", "not an image");
  folders.write("val/.cache/0.jpg", Folders::plain(0, 0));
  const Manifest manifest = folders.prepare();
  EXPECT_EQ(manifest.classes, 3);
  for (const char* split : {"train", "validation"})
    EXPECT_EQ(manifest.splits.at(split).count, before.splits.at(split).count);
  EXPECT_EQ(jpeg_folder_format().describe({.here = true, .folder = folders.home()}).classes, 3);
}

TEST(JpegFolder, RefusesWhatItWouldLeaveOut) {
  const auto reason = [](const std::function<void(const Folders&)>& change) {
    const Folders folders;
    change(folders);
    const std::string described =
        reason_of([&] { jpeg_folder_format().describe({.here = true, .folder = folders.home()}); });
    EXPECT_EQ(described, reason_of([&] { folders.prepare(); })) << "both look at the same";
    return described;
  };
  EXPECT_THAT(reason([](const Folders& f) { f.write("train/c/0.png", "PNG"); }),
              AllOf(HasSubstr("train/c: has images of other formats"), HasSubstr("0.png;")));
  EXPECT_THAT(reason([](const Folders& f) {
                for (const char* name : {"a.PNG", "b.webp", "c.bmp", "d.tiff", "e.gif"})
                  f.write(std::string("train/Z/") + name, "");
              }),
              HasSubstr("a.PNG, b.webp, c.bmp and 2 more"));
  EXPECT_THAT(reason([](const Folders& f) { f.write("train/c/readme.txt", ""); }),
              HasSubstr("train/c: has no JPEG file"));
  EXPECT_THAT(reason([](const Folders& f) { f.write("train/Z/more/0.jpg", Folders::plain(0, 0)); }),
              HasSubstr("train/Z/more: is a folder in the folder of a class"));
  EXPECT_THAT(
      reason([](const Folders& f) { f.write("train/Z/100", Folders::plain(0, 0)); }),
      AllOf(HasSubstr("train/Z: has JPEG files whose names do not end like that"), HasSubstr("100;")));
  EXPECT_THAT(reason([](const Folders& f) { f.write("train/0.jpg", Folders::plain(0, 0)); }),
              HasSubstr("outside of the folders of its classes: 0.jpg;"));
  EXPECT_THAT(
      reason([](const Folders& f) { ASSERT_EQ(::mkfifo((f.home() / "train/Z/pipe.jpg").c_str(), 0600), 0); }),
      AllOf(HasSubstr("train/Z/pipe.jpg"), HasSubstr("is not a file")));
  for (const char* link : {"train/gone", "train/Z/gone.jpg"})
    EXPECT_THAT(
        reason([&](const Folders& f) { std::filesystem::create_symlink("nowhere", f.home() / link); }),
        AllOf(HasSubstr(link), HasSubstr("does not exist")));
}

TEST(JpegFolder, RefusesWhatItWouldLeaveOutOfTheValidationImages) {
  const Folders folders;
  folders.write("val/Z/0.png", "PNG");
  EXPECT_THAT(reason_of([&] { folders.prepare(); }), HasSubstr("val/Z: has images of other formats"));
}

TEST(JpegFolder, RefusesNamesThatAReportCannotKeep) {
  const Folders folders;
  const std::filesystem::path file = folders.home() / "train" / "Z" / "\xff\xfe.jpg";
  folders.write("train/Z/\xff\xfe.jpg", Folders::plain(0, 0));
  EXPECT_THAT(reason_of([&] { folders.prepare(); }), HasSubstr("has a name that is not UTF-8"));
  std::filesystem::rename(file, folders.home() / "train" / "Z" / "a\nb.jpg");
  EXPECT_THAT(reason_of([&] { folders.prepare(); }), HasSubstr("has a line break in its name"));
}

TEST(JpegFolder, NamesTheSplitThatIsMissing) {
  const Folders folders;
  std::filesystem::rename(folders.home() / "val", folders.home() / "validation");
  EXPECT_THAT(reason_of([&] { folders.prepare(); }), HasSubstr("there is no folder val next to that"));
  std::filesystem::remove_all(folders.home());
  for (int i = 0; i < 9; ++i) folders.write("a/" + std::to_string(i) + ".jpg", Folders::plain(0, i));
  EXPECT_THAT(reason_of([&] { folders.prepare(); }),
              AllOf(HasSubstr("has no image for the split test"), HasSubstr("of ten images of a class")));
}

TEST(JpegFolder, NamesTheFormatOfAnImageThatIsNotAJpeg) {
  const Folders folders;
  const auto reason = [&](const std::string& content) {
    folders.write("train/Z/105.JPEG", content);
    return reason_of([&] { folders.prepare(); });
  };
  using namespace std::string_literals;
  EXPECT_THAT(reason(""), HasSubstr("train/Z/105.JPEG: is empty"));
  EXPECT_THAT(reason("RIFF\x24\0\0\0WEBPVP8 "s), HasSubstr("it is a WebP"));
  EXPECT_THAT(reason("\0\0\0\x18"
                     "ftypheic"s),
              HasSubstr("it is HEIF, AVIF or a video"));
  EXPECT_THAT(reason("GIF89a"), HasSubstr("it is a GIF"));
  EXPECT_THAT(reason("RIFF\x24\0\0\0WAVE"s), HasSubstr("does not begin with ff d8"));
}

TEST(JpegFolder, ReadsEverySuffixOfJpeg) {
  const Folders folders;
  for (const char* suffix : {"jpg", "JPEG", "jpe", "jfif"})
    folders.write(std::string("train/other/0.") + suffix, Folders::plain(0, 0));
  EXPECT_EQ(folders.prepare().splits.at("train").count, 40);
}

// The first pixel of the first training image.
float first_pixel(const Manifest& manifest) {
  SourceOpener opener(manifest);
  std::vector<float> sample(3 * 16 * 16);
  opener.open("train")->read({0}, sample.data());
  return sample[0];
}

TEST(JpegFolder, ReadsTheNamedFolderAndNotALikeOneInTheCache) {
  Folders folders;
  const std::filesystem::path other = folders.folder / "other" / "images";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folders.home())) {
    if (!entry.is_regular_file()) continue;
    const std::filesystem::path name = entry.path().lexically_relative(folders.home());
    std::string image = read_text(entry.path()), white = plain_jpeg(24, 20, 250, 250, 250);
    image.resize(2000);  // nothing is read after the end marker
    white.resize(2000);
    folders.write(name.string(), image);
    std::filesystem::create_directories((other / name).parent_path());
    write_atomically(other / name, white, false);
  }
  const Manifest first = folders.prepare();
  folders.options.folders = {folders.folder / "other"};
  const Manifest second = folders.prepare();
  EXPECT_LT(first_pixel(first), 0);
  EXPECT_GT(first_pixel(second), 1);
  EXPECT_THAT(read_text(second.splits.at("train").inputs), HasSubstr((folders.folder / "other").string()));
}

TEST(JpegFolder, ReadsFilesAgainThatWereReplacedByOthersOfTheirLength) {
  const Folders folders;
  const Manifest first = folders.prepare();
  const auto prepared = first.splits.at("train").inputs;
  EXPECT_EQ(folders.prepare().splits.at("train").inputs, prepared);
  const std::filesystem::path file = folders.home() / "train" / "Z" / "100.JPEG";
  std::string text = read_text(file);
  text[0] = 'x';
  folders.write("train/Z/100.JPEG", text);
  EXPECT_THAT(reason_of([&] { folders.prepare(); }), HasSubstr("train/Z/100.JPEG"));
}

std::string checksum_of(const Folders& folders) {
  return prepare_dataset("images", folders.options).provenance.checksum.value();
}

// With up to 64 files, and with more, whose digests are kept together.
class JpegChecksum : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    for (int i = 0; i < GetParam(); ++i)
      folders_.write("train/more/" + std::to_string(i) + ".jpg", Folders::plain(i % 3, i % 12));
  }
  Folders folders_;
};
INSTANTIATE_TEST_SUITE_P(FewAndMany, JpegChecksum, testing::Values(1, 40));

TEST_P(JpegChecksum, IsThatOfTheContents) {
  const std::string before = checksum_of(folders_);
  const std::filesystem::path file = folders_.home() / "train" / "Z" / "100.JPEG";
  const std::string text = read_text(file);
  folders_.write("train/Z/100.JPEG", text + "x");  // nothing is read after the end marker
  const std::string with_x = checksum_of(folders_);
  EXPECT_NE(with_x, before);
  folders_.write("train/Z/100.JPEG", text + "y");
  EXPECT_NE(checksum_of(folders_), with_x) << "other bytes, of the same name and length";
  std::filesystem::copy(folders_.folder / "data", folders_.folder / "copy",
                        std::filesystem::copy_options::recursive);
  const std::string now = checksum_of(folders_);
  folders_.options.folders = {folders_.folder / "copy"};
  EXPECT_EQ(checksum_of(folders_), now) << "the same files elsewhere";
}

// Files of this moment are read again, because a change within the second might not show.
TEST(Provenance, KeepsDigestsOfFilesThatAreNotNew) {
  const std::filesystem::path source = std::filesystem::path(ASSAY_SOURCE_DIR) / "harness" / "graph";
  for (const std::size_t count : {max_named_files, max_named_files + 1}) {
    DatasetFiles files{source, {}};
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source))
      if (entry.is_regular_file() && files.files.size() < count) files.files.push_back(entry.path());
    ASSERT_EQ(files.files.size(), count);
    const TemporaryFolder cache;
    const FileStamps stamps(files);
    const auto checksum = [&] { return provenance_of(files, stamps, cache.path()).checksum.value(); };
    const std::string read = checksum();
    EXPECT_EQ(checksum(), read);
    const auto kept = std::filesystem::directory_iterator(cache / "digests")->path();
    std::string text = read_text(kept);
    const std::size_t digest = text.rfind("\"]") - 64;  // the last one
    text.replace(digest, 4, "----");
    write_atomically(kept, text, false);
    EXPECT_NE(checksum(), read) << "the file's digest was not taken";
    EXPECT_FALSE(provenance_of(files, stamps, cache / "empty", {.max_bytes = 9}).checksum);
  }
  const Folders fresh;
  checksum_of(fresh);
  EXPECT_FALSE(std::filesystem::exists(fresh.folder / "cache" / "digests"));
}

TEST(FileStamps, NameTheFileThatIsNotAsItWas) {
  const Folders folders;
  const PreparedDataset prepared = prepare_dataset("images", folders.options);
  EXPECT_EQ(prepared.in_place.change(), "");
  const std::filesystem::path file = folders.home() / "val" / "n2" / "1.jpg";
  const std::string text = read_text(file);
  folders.write("val/n2/1.jpg", text);
  EXPECT_THAT(prepared.in_place.change(), HasSubstr("val/n2/1.jpg was changed or replaced"));
  std::filesystem::remove(file);
  EXPECT_THAT(prepared.in_place.change(),
              AllOf(HasSubstr("val/n2/1.jpg cannot be examined any more"), HasSubstr("No such file")));
  EXPECT_EQ(prepare_dataset("synthetic", folders.options).in_place.change(), "");
}

TEST(JpegFolder, FindsDamageBeforeWorkBegins) {
  const Folders folders;
  const std::string whole = Folders::plain(0, 5);
  folders.write("train/n2/105.JPEG", whole.substr(0, whole.size() - 8));
  folders.write("train/n2/107.JPEG", whole.substr(0, whole.size() - 8));
  EXPECT_THAT(reason_of([&] { folders.prepare(); }),
              AllOf(HasSubstr("train/n2/105.JPEG"), HasSubstr("damaged")));
  EXPECT_FALSE(std::filesystem::exists(folders.folder / "cache" / "datasets"));
}

TEST(JpegFolder, RefusesAPointerOfGitLfs) {
  const Folders folders;
  folders.write("train/Z/105.JPEG", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  EXPECT_THAT(reason_of([&] { folders.prepare(); }), HasSubstr("git lfs pull"));
}

TEST(JpegFolder, loader_names_an_image_that_is_damaged_after_its_header) {
  const Folders folders;
  const Manifest manifest = folders.prepare();
  const std::string whole = Folders::plain(0, 5);
  folders.write("train/Z/105.JPEG", whole.substr(0, whole.size() - 8));
  SourceOpener opener(manifest);
  const auto train = opener.open("train");
  for (const int workers : {0, 2}) {
    Loader loader(workers, 2, 4, 3 * 16 * 16);
    loader.start({train.get(), 4, 3 * 16 * 16, 9, {}});
    std::vector<float> inputs(4 * 3 * 16 * 16);
    std::vector<std::int32_t> labels(4);
    const std::string reason = reason_of([&] {
      while (!loader.at_end()) loader.next(inputs.data(), labels.data());
    });
    EXPECT_THAT(reason, AllOf(HasSubstr("train/Z/105.JPEG"), HasSubstr("damaged")));
  }
}

RgbImage random_image(std::int64_t width, std::int64_t height) {
  RgbImage image{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3))};
  Philox random(1, "image");
  for (auto& value : image.pixels) value = static_cast<std::uint8_t>(random.next());
  return image;
}

// The same rule in doubles.
double expected(const RgbImage& image, std::int64_t resize, std::int64_t height, std::int64_t width,
                const PlanRow& row, std::int64_t c, std::int64_t y, std::int64_t x) {
  const auto shorter = static_cast<double>(std::min(image.width, image.height));
  const double scaled_width = std::floor(static_cast<double>(image.width * resize) / shorter + 0.5);
  const double scaled_height = std::floor(static_cast<double>(image.height * resize) / shorter + 0.5);
  if (row.flip != 0) x = width - 1 - x;
  const double at_x =
      static_cast<double>(x + row.dx) + std::floor((scaled_width - static_cast<double>(width)) / 2);
  const double at_y =
      static_cast<double>(y + row.dy) + std::floor((scaled_height - static_cast<double>(height)) / 2);
  if (at_x < 0 || at_y < 0 || at_x >= scaled_width || at_y >= scaled_height) return 0;
  const auto inside = [](double at, double scaled, std::int64_t size) {
    return std::clamp((at + 0.5) * static_cast<double>(size) / scaled - 0.5, 0.0,
                      static_cast<double>(size - 1));
  };
  const double sx = inside(at_x, scaled_width, image.width), sy = inside(at_y, scaled_height, image.height);
  double value = 0;
  for (const int dy : {0, 1})
    for (const int dx : {0, 1}) {
      const auto px = std::min<std::int64_t>(static_cast<std::int64_t>(sx) + dx, image.width - 1);
      const auto py = std::min<std::int64_t>(static_cast<std::int64_t>(sy) + dy, image.height - 1);
      const double fx = sx - std::floor(sx), fy = sy - std::floor(sy);
      value += (dx ? fx : 1 - fx) * (dy ? fy : 1 - fy) *
               image.pixels[static_cast<std::size_t>((py * image.width + px) * 3 + c)];
    }
  return value;
}

TEST(CutOut, scales_crops_and_mirrors_as_its_rule_says) {
  for (const auto& [width, height] :
       {std::pair<std::int64_t, std::int64_t>{50, 31}, {20, 47}, {7, 7}, {1, 3}})
    for (const PlanRow& row : {PlanRow{0, 0, 0, 0}, PlanRow{0, 3, -2, 1}, PlanRow{0, -9, 9, 0}}) {
      const RgbImage image = random_image(width, height);
      std::vector<std::uint8_t> out(3 * 14 * 16);
      cut_out(image, 18, 14, 16, row, out);
      for (std::int64_t c = 0; c < 3; ++c)
        for (std::int64_t y = 0; y < 14; ++y)
          for (std::int64_t x = 0; x < 16; ++x)
            EXPECT_NEAR(out[static_cast<std::size_t>((c * 14 + y) * 16 + x)],
                        expected(image, 18, 14, 16, row, c, y, x), 2.1)
                << width << "x" << height << " at " << c << " " << y << " " << x;
    }
}

TEST(Jpeg, grey_and_cmyk_become_rgb_and_every_truncation_is_refused) {
  RgbImage image;
  const auto decode = [&](const std::string& text) {
    decode_jpeg(std::as_bytes(std::span(text)), "x.jpg", image);
  };
  decode(jpeg_of(std::vector<std::uint8_t>(64, 77), 8, 8, 1));
  ASSERT_EQ(image.pixels.size(), 192u);
  for (const std::uint8_t value : image.pixels) EXPECT_NEAR(value, 77, 1);
  decode(jpeg_of(std::vector<std::uint8_t>(256, 255), 8, 8, 4));
  for (const std::uint8_t value : image.pixels) EXPECT_NEAR(value, 255, 1) << "inverted: no ink is white";
  const std::string good = plain_jpeg(9, 9, 10, 20, 30);
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THAT(reason_of([&] { decode(good.substr(0, size)); }), HasSubstr("x.jpg")) << size;
}

TEST(Jpeg, BytesBeforeTheEndMarkerDoNotDamageAnImage) {
  const std::string good = plain_jpeg(9, 9, 10, 20, 30);
  RgbImage image, expected;
  const auto decode = [](const std::string& text, RgbImage& into) {
    decode_jpeg(std::as_bytes(std::span(text)), "x.jpg", into);
  };
  decode(good, expected);
  ASSERT_EQ(good.substr(good.size() - 2), "\xff\xd9");
  const auto padded = [&](std::size_t bytes) {
    return good.substr(0, good.size() - 2) + std::string(bytes, '\0') + "\xff\xd9";
  };
  decode(padded(7), image);
  EXPECT_EQ(image.pixels, expected.pixels);
  EXPECT_THAT(reason_of([&] { decode(padded(500), image); }), HasSubstr("damaged"));
}

TEST(Jpeg, RefusesAnImageThatIsTooLargeForMemory) {
  std::string large = plain_jpeg(8, 8, 1, 2, 3);
  const std::size_t frame = large.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  large.replace(frame + 5, 4, "\xfe\xfe\xfe\xfe");  // height and width
  EXPECT_THAT(reason_of([&] { read_jpeg_size(std::as_bytes(std::span(large)), "x.jpg"); }),
              HasSubstr("65278 by 65278 pixels"));
}

}  // namespace
}  // namespace assay
