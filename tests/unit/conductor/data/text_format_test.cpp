#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/npy.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/unit/conductor/data/reason_of.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct LittleText {
  TemporaryFolder folder;
  PrepareOptions options;

  explicit LittleText(const std::string& text, std::int64_t length = 4) {
    std::filesystem::create_directories(folder / "text");
    write_atomically(file(), text, false);
    options.folders = {folder.path()};
    options.cache = folder / "cache";
    options.sample_shape = {length};
  }
  std::filesystem::path file() const { return folder / "text" / "input.txt"; }
  PreparedDataset prepared() const { return prepare_dataset("text", options); }
  std::string reason() const {
    return reason_of([&] { prepared(); });
  }
};

std::vector<std::int32_t> values(const std::filesystem::path& path) {
  const MappedNpy array(path);
  return {array.as<std::int32_t>().begin(), array.as<std::int32_t>().end()};
}

TEST(TextFormat, CutsAFileIntoSequencesWhoseLabelsAreTheNextCharacters) {
  // 60 characters: 54 are for training, that is 13 sequences of 4; 6 are held out, that is one.
  std::string text;
  for (int i = 0; i < 60; ++i) text += static_cast<char>('a' + i * i % 7);
  const LittleText little(text);
  const Manifest manifest = little.prepared().manifest;
  EXPECT_EQ(manifest.classes, 4) << "the squares modulo 7";
  EXPECT_EQ(manifest.vocabulary, 4);
  EXPECT_EQ(manifest.positions, 4);
  const Split &train = manifest.splits.at("train"), &validation = manifest.splits.at("validation");
  EXPECT_EQ(train.count, 13);
  EXPECT_EQ(validation.count, 1);
  EXPECT_EQ(manifest.splits.at("test").inputs, validation.inputs);

  const std::string known = "abce";
  const auto token = [&](std::size_t i) { return static_cast<std::int32_t>(known.find(text[i])); };
  const std::vector<std::int32_t> inputs = values(train.inputs), labels = values(train.labels);
  ASSERT_EQ(inputs.size(), 52U);
  ASSERT_EQ(labels.size(), 52U);
  for (std::size_t i = 0; i < 52; ++i) {
    ASSERT_EQ(inputs[i], token(i));
    ASSERT_EQ(labels[i], token(i + 1));
  }
  EXPECT_THAT(values(validation.inputs), ElementsAre(token(54), token(55), token(56), token(57)));
  EXPECT_THAT(values(validation.labels), ElementsAre(token(55), token(56), token(57), token(58)));
}

TEST(TextFormat, CountsCharactersAndNotBytes) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "aé€\U0001F600";
  const LittleText little(text);
  const Manifest manifest = little.prepared().manifest;
  EXPECT_EQ(manifest.classes, 4);
  EXPECT_EQ(manifest.splits.at("train").count, (108 - 1) / 4);
  const std::vector<std::int32_t> inputs = values(manifest.splits.at("train").inputs);
  EXPECT_THAT(std::vector(inputs.begin(), inputs.begin() + 4), ElementsAre(0, 1, 2, 3));
}

TEST(TextFormat, TakesAFileThatIsNamedItself) {
  LittleText little(std::string(50, 'a') + std::string(50, 'b'));
  little.options.folders = {little.file()};
  const PreparedDataset prepared = little.prepared();
  EXPECT_EQ(prepared.manifest.classes, 2);
  EXPECT_EQ(prepared.provenance.files.at(0).name, "input.txt");
  EXPECT_EQ(locate_dataset(find_dataset("text"), little.options.folders).text(), little.file().string());
}

TEST(TextFormat, DescribesTheNumberOfCharacters) {
  const LittleText little("to be or not to be");
  EXPECT_EQ(text_format().describe({.here = true, .folder = little.folder / "text"}).classes, 7);
  EXPECT_TRUE(text_format().describe({.here = true, .folder = little.folder / "text"}).sample_shape.empty());
}

TEST(TextFormat, RefusesWhatIsNoTextOrTooShort) {
  EXPECT_THAT(LittleText(std::string(100, 'a')).reason(), HasSubstr("has 1 different characters"));
  EXPECT_THAT(LittleText("abcabcabcabcabcabc").reason(), HasSubstr("is too short"));
  EXPECT_THAT(LittleText("line\nline \xff").reason(), HasSubstr("line 2 is not UTF-8 (byte 0xff)"));
  EXPECT_THAT(LittleText(std::string("to be\0or not", 12)).reason(), HasSubstr("byte 5 is 0"));
  LittleText missing("abc");
  std::filesystem::remove(missing.file());
  EXPECT_THAT(missing.reason(), HasSubstr("--data FILE"));
}

TEST(TextFormat, ReadsMarksAndLineEndsAsPythonDoes) {
  std::string plain, windows, old_mac;
  for (int i = 0; i < 30; ++i) {
    const std::string line = "line " + std::to_string(i * i % 10);
    plain += line + "\n";
    windows += line + "\r\n";
    old_mac += line + "\r";
  }
  const LittleText expected(plain);
  const Split train = expected.prepared().manifest.splits.at("train");
  for (const std::string& text :
       {std::string(utf8_mark) + plain, windows, old_mac, std::string(utf8_mark) + windows}) {
    const LittleText little(text);
    const Manifest manifest = little.prepared().manifest;
    EXPECT_EQ(manifest.classes, expected.prepared().manifest.classes);
    EXPECT_EQ(text_format().describe({.here = true, .folder = little.folder / "text"}).classes,
              manifest.classes);
    EXPECT_EQ(values(manifest.splits.at("train").inputs), values(train.inputs));
  }
  // A mark elsewhere is a character of the text.
  EXPECT_EQ(LittleText(plain + std::string(utf8_mark)).prepared().manifest.classes,
            expected.prepared().manifest.classes + 1);
}

TEST(TextFormat, NamesAnotherEncodingOrAPointerOfGitLfs) {
  std::string wide("\xff\xfe", 2);
  for (const char c : std::string("to be or not to be")) wide += std::string{c, '\0'};
  EXPECT_THAT(LittleText(wide).reason(), HasSubstr("is a text in UTF-16; save it as UTF-8"));
  EXPECT_THAT(LittleText(wide.substr(2)).reason(), HasSubstr("UTF-16"));
  EXPECT_THAT(LittleText("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n").reason(),
              HasSubstr("git lfs pull"));
  EXPECT_THAT(LittleText("\x1f\x8b\x08 packed").reason(),
              HasSubstr("is not a text: it is compressed by gzip"));
}

TEST(TextFormat, ReadsTheCorpusOfTheTests) {
  PrepareOptions options;
  const TemporaryFolder cache;
  options.cache = cache.path();
  options.folders = {std::filesystem::path(ASSAY_SOURCE_DIR) / "tests" / "data"};
  options.sample_shape = {64};
  const PreparedDataset prepared = prepare_dataset("text", options);
  EXPECT_EQ(prepared.manifest.classes, 49);
  EXPECT_EQ(prepared.manifest.splits.at("train").count, 287);
  EXPECT_EQ(prepared.manifest.splits.at("validation").count, 31);
}

}  // namespace
}  // namespace assay
