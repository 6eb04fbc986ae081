#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/pickled_lists.hpp"
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
using testing::Each;
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

TEST(TextTokens, utf8_is_what_rfc_3629_says) {
  EXPECT_EQ(find_bad_utf8("plain \xc3\xaf \xe2\x82\xac \xf0\x9f\x8e\xac"), std::string_view::npos);
  for (const char* bad : {"ab\x85", "ab\xc0\xaf", "ab\xe0\x80\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80",
                          "ab\xff", "ab\xe2\x82", "ab\xf5\x80\x80\x80", "ab\xf0\x80\x80\x80"})
    EXPECT_EQ(find_bad_utf8(bad), 2u) << bad;
}

TEST(Vocabulary, ranks_by_frequency_and_then_by_bytes) {
  Vocabulary vocabulary;
  const std::vector<std::string_view> words = {"b", "c", "a", "c", "zz", "zz", "zz"};
  vocabulary.add(words);
  vocabulary.rank();
  const std::vector<std::string_view> asked = {"zz", "c", "a", "b", "never"};
  EXPECT_THAT(vocabulary.ranks_of(asked), ElementsAre(1, 2, 3, 4, 1 << 30));
}

std::string from_hex(std::string_view digits) {
  std::string text;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    text += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return text;
}

// pickle.dumps of np.array([[1, 14, 300, 70000], []], dtype=object): by protocol 2 under the names of numpy
// 1, as the published file has it, and by protocols 3, 4 and 5 of numpy 2.
const std::vector<std::string>& pickled() {
  static const std::vector<std::string> all = {
      from_hex(
          "8002636e756d70792e636f72652e6d756c746961727261790a5f7265636f6e7374727563740a7100636e756d70790a6e"
          "6461727261790a71014b00857102635f636f646563730a656e636f64650a7103580100000062710458060000006c6174"
          "696e317105867106527107877108527109284b014b0285710a636e756d70790a64747970650a710b58020000004f3871"
          "0c898887710d52710e284b0358010000007c710f4e4e4e4affffffff4affffffff4b3f74711062895d7111285d711228"
          "4b014b0e4d2c014a70110100655d711365747114622e"),
      from_hex(
          "8003636e756d70792e5f636f72652e6d756c746961727261790a5f7265636f6e7374727563740a7100636e756d70790a"
          "6e6461727261790a71014b008571024301627103877104527105284b014b02857106636e756d70790a64747970650a71"
          "0758020000004f387108898887710952710a284b0358010000007c710b4e4e4e4affffffff4affffffff4b3f74710c62"
          "895d710d285d710e284b014b0e4d2c014a70110100655d710f65747110622e"),
      from_hex(
          "8004959c000000000000008c166e756d70792e5f636f72652e6d756c74696172726179948c0c5f7265636f6e73747275"
          "63749493948c056e756d7079948c076e6461727261799493944b0085944301629487945294284b014b02859468038c05"
          "64747970659493948c024f3894898887945294284b038c017c944e4e4e4affffffff4affffffff4b3f749462895d9428"
          "5d94284b014b0e4d2c014a70110100655d94657494622e"),
      from_hex(
          "8005959c000000000000008c166e756d70792e5f636f72652e6d756c74696172726179948c0c5f7265636f6e73747275"
          "63749493948c056e756d7079948c076e6461727261799493944b0085944301629487945294284b014b02859468038c05"
          "64747970659493948c024f3894898887945294284b038c017c944e4e4e4affffffff4affffffff4b3f749462895d9428"
          "5d94284b014b0e4d2c014a70110100655d94657494622e")};
  return all;
}

std::vector<std::vector<std::int32_t>> read(const std::string& text) {
  return read_pickled_lists(std::as_bytes(std::span(text)), "x.npy");
}

TEST(PickledLists, are_read_as_numpy_writes_them) {
  for (const std::string& text : pickled())
    EXPECT_THAT(read(text), ElementsAre(ElementsAre(1, 14, 300, 70000), ElementsAre()));
}

TEST(PickledLists, name_a_pickle_that_is_truncated_wherever_it_ends) {
  for (const std::string& good : pickled())
    for (std::size_t size = 0; size < good.size(); ++size)
      EXPECT_NE(reason_of([&] { read(good.substr(0, size)); }), "read") << size;
}

TEST(PickledLists, execute_nothing) {
  // pickle.dumps of an object whose __reduce__ gives (os.system, ("touch executed",)).
  const std::string evil =
      "\x80\x03"
      "cposix\nsystem\nq\x01X\x0e" +
      std::string("\0\0\0touch executed\x85q\x02R.", 23);
  EXPECT_THAT(reason_of([&] { read(evil); }), AllOf(HasSubstr("posix.system"), HasSubstr("not executed")));
  EXPECT_THAT(reason_of([&] { read("\x80\x03(cnumpy\nndarray\nK\x01o."); }), HasSubstr("opcode 0x6f"));
  EXPECT_THAT(reason_of([&] {
                read(
                    "\x80\x03"
                    "cnumpy\nndarray\nK\x01\x85R.");
              }),
              HasSubstr("calls 'numpy.ndarray'"));
  EXPECT_THAT(reason_of([&] { read("\x80\x01."); }), HasSubstr("protocol 1"));
  EXPECT_FALSE(std::filesystem::exists("executed"));
}

TEST(PickledLists, refuse_what_would_make_cycles_or_depths_or_no_list_of_words) {
  EXPECT_THAT(reason_of([] {
                read(
                    "\x80\x02]q\x01h\x01"
                    "a.");
              }),
              HasSubstr("list of other things"));
  EXPECT_THAT(reason_of([] {
                read(
                    "\x80\x02]q\x01]q\x02"
                    "ah\x02]a.");
              }),
              HasSubstr("list of other things"));
  EXPECT_THAT(reason_of([] {
                read(
                    "\x80\x02]J\xff\xff\xff\xff"
                    "a.");
              }),
              HasSubstr("the number -1"));
  std::string deep = "\x80\x02)";
  deep.append(100'000, '\x85');
  EXPECT_THAT(reason_of([&] { read(deep + "."); }), HasSubstr("tuples within tuples"));
  EXPECT_THAT(reason_of([] { read("\x80\x02]."); }), HasSubstr("no array of lists"));
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

TEST(AclImdb, becomes_the_tokens_of_the_most_frequent_words_of_its_training_half) {
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

TEST(AclImdb, refuses_what_is_no_utf8_with_file_and_line) {
  const Reviews reviews;
  reviews.write("train/pos/1_9.txt", "fine\nfine\nna\xefve\n");
  EXPECT_THAT(reason_of([&] { reviews.prepare(); }),
              AllOf(HasSubstr("train/pos/1_9.txt"), HasSubstr("line 3 holds the byte 0xef")));
  EXPECT_FALSE(std::filesystem::exists(reviews.folder / "cache" / "datasets"));
}

TEST(AclImdb, refuses_another_number_of_reviews) {
  const Reviews reviews;
  reviews.write("test/pos/2_9.txt", "one more");
  EXPECT_THAT(reason_of([&] { reviews.prepare(); }),
              HasSubstr("has 5 texts in test/neg and test/pos, wanted 4"));
  std::filesystem::remove_all(reviews.folder / "data" / "aclimdb" / "aclImdb" / "train" / "pos");
  EXPECT_THROW(reviews.prepare(), DatasetMissing);
}

// The archive as Keras publishes it.
struct KerasReviews {
  TemporaryFolder folder;
  Dataset dataset{"imdb", "", {500}, 2, 2, 1, 1, "fetch it", &imdb_format(), 5000};
  PrepareOptions options;
  explicit KerasReviews(const std::string& npz) {
    options.folders = {folder.path()};
    options.cache = folder / "cache";
    std::filesystem::create_directories(folder / "imdb");
    write_atomically(folder / "imdb" / "imdb.npz", npz, false);
  }
  Manifest prepare() const { return prepare_stored_dataset(dataset, options).manifest; }
};

// np.savez_compressed(x_train=[[1, 14, 300, 70000], []], y_train=[1, 0], x_test=[[2], [3]], y_test=[0, 1])
const std::string& published() {
  static const std::string npz = from_hex(
      "504b0304140000000800000021001420a2ccd2000000270100000b001400785f747261696e2e6e707901001000270100"
      "0000000000d2000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a05ee3afaea3a09e965f5452949817"
      "9f5f94920a12764bcc294e058a17672416a402f91a463a9a3a0ab50a9400ae0696a9731820a0472caf34b7a0522f3e39"
      "bf28552fb734a72433b1a828b1724a0f4f7c516a727e5e7149516972c994c9537a58c12aa7f4b0e7a540944c9ee2cdd0"
      "3ac59931694afb94a0291ade8cde4cad5332987b58534a2a0b52415a98fc2da674764064997b186ba6f8f9f979fd0702"
      "30e16d5f3225a933768a462c58339faf0ea357812023436aec9454a08c1e00504b03041400000008000000210071fb39"
      "ab48000000900000000b001400795f747261696e2e6e707901001000900000000000000048000000000000009bec17ea"
      "1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a1aea3a09e965f54529498179f5f94920a12774bcc294e058a176724"
      "16a402f91a463a9a3a0ab50a14002e4606540000504b030414000000080000002100d625415ec80000001f0100000a00"
      "1400785f746573742e6e7079010010001f01000000000000c800000000000000a58bbb0ac2401045f35004b1b64eb711"
      "420a2bb1b1102c5c8c2258584858931585bc986c84a0828da8b05dc6efd5d57c82a7b830e7dea9bcd56cb1d6b5a37622"
      "21cf0320438b9ce7c4b1c82e05012cf15308f9574f589473e5f33dcbb8baedbed373ac8bf50fed6be3855a8dec26459c"
      "95ae1fa4c0ddb888c48101b01265c7071ea4492ea0080456289bbf25ca5612d6930aa976c3b1bec53b2ed1a63a356eb8"
      "3765331465c6bf2fc67c80cf47dd9a523fa3e779d3b7e217742470fbdca0bd416a301526e3cab81f504b030414000000"
      "0800000021007e6afbc949000000900000000a001400795f746573742e6e707901001000900000000000000049000000"
      "000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a1aea3a09e965f54529498179f5f94920a12774b"
      "cc294e058a17672416a402f91a463a9a3a0ab50a14002e06286084d200504b01021403140000000800000021001420a2"
      "ccd2000000270100000b0000000000000000000000800100000000785f747261696e2e6e7079504b0102140314000000"
      "08000000210071fb39ab48000000900000000b000000000000000000000080010f010000795f747261696e2e6e707950"
      "4b0102140314000000080000002100d625415ec80000001f0100000a0000000000000000000000800194010000785f74"
      "6573742e6e7079504b01021403140000000800000021007e6afbc949000000900000000a000000000000000000000080"
      "0198020000795f746573742e6e7079504b05060000000004000400e20000001d0300000000");
  return npz;
}

TEST(Imdb, is_read_from_the_archive_of_keras) {
  const KerasReviews reviews(published());
  const Manifest manifest = reviews.prepare();
  const Split &train = manifest.splits.at("train"), &test = manifest.splits.at("test");
  EXPECT_EQ(train.count, 2);
  EXPECT_EQ(manifest.vocabulary, 5000);
  EXPECT_THAT(text_of(train, 0), ElementsAre(1, 4, 17, 303, 2));
  EXPECT_THAT(text_of(train, 1), ElementsAre(1));
  EXPECT_THAT(text_of(manifest.splits.at("validation"), 0), ElementsAre(1, 5));
  EXPECT_THAT(text_of(test, 0), ElementsAre(1, 6));
  EXPECT_EQ(MappedNpy(train.labels).as<std::int32_t>()[0], 1);
  EXPECT_EQ(MappedNpy(test.labels).as<std::int32_t>()[1], 1);
}

TEST(Imdb, names_an_archive_that_is_truncated_or_altered) {
  for (std::size_t size = 0; size < published().size(); size += 7)
    EXPECT_THAT(reason_of([&] { KerasReviews(published().substr(0, size)).prepare(); }), HasSubstr("imdb"));
  int refused = 0, rounds = 0;
  for (std::size_t at = 0; at < published().size(); at += 11, ++rounds) {
    std::string bad = published();
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    refused += reason_of([&] { KerasReviews(bad).prepare(); }) != "read";
  }
  EXPECT_GT(refused, rounds / 2) << "names and dates of members are not checked";
}

}  // namespace
}  // namespace assay
