#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/conductor/data/text_tokens.hpp"
#include "harness/conductor/data/vocabulary.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/unit/conductor/data/reason_of.hpp"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::int32_t> row_of(const std::vector<std::int32_t>& ranks, std::size_t length) {
  std::vector<std::int32_t> row(length, -7);
  write_tokens(ranks, row);
  return row;
}

TEST(TextTokens, are_offset_padded_in_front_and_cut_in_front_as_keras_does) {
  EXPECT_THAT(row_of({1, 7, 4996, 4997, 88'000}, 8), ElementsAre(0, 0, 1, 4, 10, 4999, 2, 2));
  EXPECT_THAT(row_of({}, 3), ElementsAre(0, 0, 1)) << "an empty text is padding and the start";
  EXPECT_THAT(row_of({5, 6}, 3), ElementsAre(1, 8, 9));
  EXPECT_THAT(row_of({5, 6, 7}, 3), ElementsAre(8, 9, 10)) << "the start is cut first";
  EXPECT_THAT(row_of({5, 6, 7, 8}, 3), ElementsAre(9, 10, 11));
}

TEST(TextTokens, words_are_small_letters_digits_apostrophes_and_other_scripts) {
  std::string text = "It's GREAT!<br /><br />10/10 --- na\xc3\xafve\tfilm.";
  EXPECT_THAT(split_words(text), ElementsAre("it's", "great", "10", "10", "na\xc3\xafve", "film"));
  std::string none = " ... ";
  EXPECT_TRUE(split_words(none).empty());
}

TEST(Vocabulary, ranks_by_frequency_and_then_by_bytes) {
  Vocabulary vocabulary;
  const std::vector<std::string_view> words = {"b", "c", "a", "c", "zz", "zz", "zz"};
  vocabulary.add(words);
  vocabulary.rank();
  const std::vector<std::string_view> asked = {"zz", "c", "a", "b", "never"};
  EXPECT_THAT(vocabulary.ranks_of(asked), ElementsAre(1, 2, 3, 4, 1 << 30));
}

struct Reviews {
  TemporaryFolder folder;
  Dataset dataset{"aclimdb", "", {500}, 2, 4, 2, 2, "fetch it", &aclimdb_format(), 5000};
  PrepareOptions options;

  Reviews() {
    options.folders = {folder / "data"};
    options.cache = folder / "cache";
    write("train/neg/0_1.txt", "bad bad bad film");
    write("train/neg/1_1.txt", "bad film\nand long");
    write("train/pos/0_9.txt", "good <br />film film");
    write("train/pos/1_9.txt", "");
    write("test/neg/0_1.txt", "bad unheard");
    write("test/neg/1_1.txt", "a");
    write("test/pos/0_9.txt", "GOOD");
    write("test/pos/1_9.txt", "and");
  }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder / "data" / "aclimdb" / "aclImdb" / name;
    std::filesystem::create_directories(path.parent_path());
    write_atomically(path, text, false);
  }
  Manifest prepare() const { return prepare_stored_dataset(dataset, options).manifest; }
};

// The tokens of a sample without its padding.
std::vector<std::int32_t> text_of(const Split& split, std::int64_t sample) {
  const MappedNpy inputs(split.inputs);
  const auto row =
      inputs.as<std::int32_t>().subspan(static_cast<std::size_t>(split.first + sample) * 500, 500);
  const auto begin = std::find_if(row.begin(), row.end(), [](std::int32_t token) { return token != 0; });
  return {begin, row.end()};
}

TEST(AclImdb, uses_the_most_frequent_words_of_the_training_half) {
  const Manifest manifest = Reviews().prepare();
  // bad 4, film 4, and 1, good 1, long 1: of equals the first by its bytes.
  EXPECT_EQ(manifest.vocabulary, 5000);
  const Split& train = manifest.splits.at("train");
  EXPECT_EQ(train.count, 4);
  EXPECT_EQ(manifest.splits.at("validation").count, 2);
}

TEST(AclImdb, words_and_labels_are_where_they_belong) {
  const Reviews reviews;
  const Manifest manifest = reviews.prepare();
  const Split &train = manifest.splits.at("train"), &validation = manifest.splits.at("validation"),
              &test = manifest.splits.at("test");
  EXPECT_THAT(text_of(train, 0), ElementsAre(1, 4, 4, 4, 5));
  EXPECT_THAT(text_of(train, 1), ElementsAre(1, 4, 5, 6, 8));
  EXPECT_THAT(text_of(train, 2), ElementsAre(1, 7, 5, 5));
  EXPECT_THAT(text_of(train, 3), ElementsAre(1)) << "an empty review";
  EXPECT_THAT(text_of(validation, 0), ElementsAre(1, 4, 2)) << "a word that training has not";
  EXPECT_THAT(text_of(validation, 1), ElementsAre(1, 7));
  EXPECT_THAT(text_of(test, 0), ElementsAre(1, 2));
  EXPECT_THAT(text_of(test, 1), ElementsAre(1, 6));
  const MappedNpy labels(train.labels);
  EXPECT_THAT(std::vector<std::int32_t>(labels.as<std::int32_t>().begin(), labels.as<std::int32_t>().end()),
              ElementsAre(0, 0, 1, 1));
  const MappedNpy held(test.labels);
  EXPECT_THAT(std::vector<std::int32_t>(held.as<std::int32_t>().begin(), held.as<std::int32_t>().end()),
              ElementsAre(0, 1, 0, 1))
      << "validation, then test, each with both classes";
}

TEST(AclImdb, keeps_the_end_of_a_review_that_is_too_long) {
  const Reviews reviews;
  std::string text;
  for (int i = 0; i < 600; ++i) text += i < 599 ? "bad " : "film";
  reviews.write("train/pos/1_9.txt", text);
  const auto tokens = text_of(reviews.prepare().splits.at("train"), 3);
  ASSERT_EQ(tokens.size(), 500u);
  EXPECT_EQ(tokens.back(), 5);
  EXPECT_EQ(tokens.front(), 4) << "the start is cut off, too";
}

TEST(AclImdb, refuses_invalid_utf8_with_file_and_line) {
  const Reviews reviews;
  reviews.write("train/pos/1_9.txt", "fine\nfine\nna\xefve\n");
  EXPECT_THAT(reason_of([&] { reviews.prepare(); }),
              AllOf(HasSubstr("train/pos/1_9.txt"), HasSubstr("line 3 is not UTF-8 (byte 0xef)")));
  EXPECT_FALSE(std::filesystem::exists(reviews.folder / "cache" / "datasets"));
}

TEST(AclImdb, refuses_another_number_of_reviews) {
  const Reviews reviews;
  reviews.write("test/pos/2_9.txt", "one more");
  EXPECT_THAT(reason_of([&] { reviews.prepare(); }),
              HasSubstr("has 5 texts in test/neg and test/pos, but must have 4"));
  std::filesystem::remove_all(reviews.folder / "data" / "aclimdb" / "aclImdb" / "train" / "pos");
  EXPECT_THROW(reviews.prepare(), DatasetMissing);
}

TEST(AclImdb, ReadsTextsWithAMarkAndOtherLineEnds) {
  const Reviews plain, marked;
  marked.write("train/neg/0_1.txt",
               "\xef\xbb\xbf"
               "bad bad bad film");
  marked.write("train/neg/1_1.txt", "bad film\r\nand long");
  const auto tokens = [](const Reviews& reviews) {
    const MappedNpy inputs(reviews.prepare().splits.at("train").inputs);
    return std::vector(inputs.as<std::int32_t>().begin(), inputs.as<std::int32_t>().end());
  };
  EXPECT_EQ(tokens(marked), tokens(plain));
}

}  // namespace
}  // namespace assay
