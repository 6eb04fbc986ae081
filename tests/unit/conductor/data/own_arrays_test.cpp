#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/conductor/data/sample_files.hpp"
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

// The bytes that np.save writes for labels of `descr`.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(text.size());
  head += '\0';
  return head + text + data;
}

struct Own {
  TemporaryFolder folder;
  PrepareOptions options;
  Own() {
    options.folders = {folder.path()};
    options.cache = folder / "cache";
    std::filesystem::create_directories(folder / "npy");
    std::vector<float> inputs(25 * 6);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i);
    write_npy(folder / "npy" / "inputs.npy", {DType::f32, {25, 1, 2, 3}}, std::span<const float>(inputs));
    std::string labels;
    for (int i = 0; i < 25; ++i) labels += std::string{static_cast<char>(i % 4), 0, 0, 0, 0, 0, 0, 0};
    write_labels(npy("<i8", "(25,)", labels));
  }
  void write_labels(const std::string& text) const {
    write_atomically(folder / "npy" / "labels.npy", text, false);
  }
  std::string reason() const {
    try {
      prepare_dataset("npy", options);
    } catch (const IoError& error) {
      return error.what();
    }
    return "read";
  }
};

TEST(OwnArrays, are_split_by_number_and_define_shape_and_classes) {
  const Own own;
  const Manifest manifest = prepare_dataset("npy", own.options).manifest;
  EXPECT_EQ(manifest.sample_shape, (Shape{1, 2, 3}));
  EXPECT_EQ(manifest.classes, 4);
  EXPECT_THAT(manifest.normalisation.scale, ElementsAre(1.0f));
  EXPECT_EQ(manifest.splits.at("train").count, 21);
  EXPECT_EQ(manifest.splits.at("validation").count, 2);
  EXPECT_EQ(manifest.splits.at("test").count, 2);
  const MappedNpy test(manifest.splits.at("test").inputs), labels(manifest.splits.at("test").labels);
  EXPECT_EQ(test.as<float>()[0], 9 * 6);
  EXPECT_EQ(test.as<float>()[6], 19 * 6);
  EXPECT_EQ(labels.as<std::int32_t>()[0], 1);
  EXPECT_EQ(MappedNpy(manifest.splits.at("train").inputs).as<float>()[8 * 6], 10 * 6);
  const SampleKind kind = find_dataset("npy").format->describe({.here = true, .folder = own.folder / "npy"});
  EXPECT_EQ(kind.sample_shape, (Shape{1, 2, 3}));
  EXPECT_EQ(kind.classes, 4);
}

TEST(OwnArrays, AreReadFromFilesThatAreNamedThemselves) {
  const Own own;
  const std::filesystem::path inputs = own.folder / "x.npy", labels = own.folder / "elsewhere" / "y.npy";
  std::filesystem::create_directories(labels.parent_path());
  std::filesystem::rename(own.folder / "npy" / "inputs.npy", inputs);
  std::filesystem::rename(own.folder / "npy" / "labels.npy", labels);
  PrepareOptions options = own.options;
  options.folders = {inputs, own.folder.path(), labels};
  const PreparedDataset prepared = prepare_dataset("npy", options);
  EXPECT_EQ(prepared.manifest.classes, 4);
  EXPECT_EQ(prepared.provenance.files.at(1).name, "elsewhere/y.npy");
  const DatasetPlace place = locate_dataset(find_dataset("npy"), options.folders);
  EXPECT_EQ(place.text(),
            std::filesystem::canonical(inputs).string() + ", " + std::filesystem::canonical(labels).string());
  EXPECT_EQ(find_dataset("npy").format->describe(place).classes, 4);
  options.folders = {inputs};
  EXPECT_THROW(prepare_dataset("npy", options), DatasetMissing) << "there are no labels";
  EXPECT_FALSE(locate_dataset(find_dataset("imdb"), options.folders).here) << "whose shapes are known";
}

TEST(OwnArrays, AreTheSameDataWhereverTheFilesAre) {
  const Own own;
  const auto checksum = [&](std::vector<std::filesystem::path> places) {
    PrepareOptions options = own.options;
    options.folders = std::move(places);
    return prepare_dataset("npy", options).provenance.checksum.value();
  };
  const std::string expected = checksum({own.folder.path()});
  const std::filesystem::path labels = own.folder / "there" / "y.npy";
  std::filesystem::create_directories(labels.parent_path());
  std::filesystem::copy(own.folder / "npy" / "labels.npy", labels);
  std::filesystem::create_directory_symlink(own.folder / "npy", own.folder / "link");
  EXPECT_EQ(checksum({own.folder / "npy" / "inputs.npy", labels}), expected);
  EXPECT_EQ(checksum({own.folder / "link" / "inputs.npy", labels}), expected);
  EXPECT_EQ(checksum({own.folder / "there" / ".." / "npy" / "inputs.npy", labels}), expected);
}

TEST(OwnArrays, refuse_arrays_that_do_not_fit) {
  const Own own;
  own.write_labels(npy("<i4", "(2,)", std::string(8, '\0')));
  EXPECT_THAT(own.reason(), HasSubstr("2 labels for 25 inputs"));
  own.write_labels(npy("|i1", "(25,)", std::string(25, '\xff')));
  EXPECT_THAT(own.reason(), HasSubstr("label 0 is -1"));
  own.write_labels(npy("<f4", "(25,)", std::string(100, '\0')));
  EXPECT_THAT(own.reason(), HasSubstr("contains '<f4' (32-bit real numbers) (25), but labels"));
  own.write_labels(npy("<i8", "(25,)", std::string(200, '\x11')));
  EXPECT_THAT(own.reason(), HasSubstr("label 0 is 1229782938247303441: number the classes"));
  own.write_labels(npy("|b1", "(25,)", std::string(24, '\1')));
  EXPECT_THAT(own.reason(), HasSubstr("is truncated"));
  own.write_labels(npy("|b1", "(25,)", std::string(25, '\1')));
  EXPECT_EQ(own.reason(), "read");
  const std::vector<std::int32_t> words(25);
  write_npy(own.folder / "npy" / "inputs.npy", {DType::i32, {25}}, std::span<const std::int32_t>(words));
  EXPECT_THAT(own.reason(), AllOf(HasSubstr("contains '<i4' (32-bit whole numbers) (25)"),
                                  HasSubstr("x.astype(np.float32)")));
  const std::vector<std::uint8_t> few(9);
  write_npy(own.folder / "npy" / "inputs.npy", {DType::u8, {9, 1}}, std::span<const std::uint8_t>(few));
  EXPECT_THAT(own.reason(), HasSubstr("9 samples; at least 10 are needed"));
}

TEST(OwnArrays, RefuseValuesThatAreNotFiniteOrTooLarge) {
  // Sample 8 is of the validation split, and sample 9 of the test split.
  for (const std::size_t sample : {0, 8, 9, 24})
    for (const float bad : {NAN, INFINITY, -INFINITY, 1e20F}) {
      const Own own;
      std::vector<float> inputs(25 * 6, 0.5F);
      inputs[sample * 6 + 4] = bad;
      write_npy(own.folder / "npy" / "inputs.npy", {DType::f32, {25, 1, 2, 3}},
                std::span<const float>(inputs));
      EXPECT_THAT(own.reason(), AllOf(HasSubstr("inputs.npy"),
                                      HasSubstr(fmt::format("sample {} (element 4) is {:g};", sample, bad))));
      EXPECT_FALSE(std::filesystem::exists(own.folder / "cache" / "datasets"));
    }
}

TEST(OwnArrays, NameWhatAFileHasAndTheCallThatFixesIt) {
  const Own own;
  const auto with_inputs = [&](const std::string& text) {
    write_atomically(own.folder / "npy" / "inputs.npy", text, false);
    return own.reason();
  };
  EXPECT_THAT(
      with_inputs(npy("<f8", "(25, 6)", std::string(1200, '\0'))),
      AllOf(HasSubstr("'<f8' (64-bit real numbers) (25, 6)"), HasSubstr("save x.astype(np.float32)")));
  EXPECT_THAT(with_inputs(npy(">f4", "(25, 6)", std::string(600, '\0'))), HasSubstr("big-endian"));
  EXPECT_THAT(with_inputs(npy("|O", "(25,)", "pickle")), HasSubstr("Python objects"));
  EXPECT_THAT(with_inputs(npy("|u1", "(150,)", std::string(150, '\0'))), HasSubstr("x.reshape(len(x), -1)"));
  EXPECT_THAT(with_inputs(npy("|u1", "(25, 0)", "")), HasSubstr("is empty: its shape is (25, 0)"));
  EXPECT_THAT(with_inputs(npy("|u1", "(25, 6)", std::string(149, '\0'))), HasSubstr("is truncated"));
  std::string fortran = npy("|u1", "(25, 6)", std::string(150, '\0'));
  fortran.replace(fortran.find("False"), 5, "True ");
  EXPECT_THAT(with_inputs(fortran),
              AllOf(HasSubstr("in Fortran order"), HasSubstr("np.ascontiguousarray(x)")));
  std::string records = npy("X", "(25,)", std::string(25, '\0'));
  records.replace(records.find("'X'"), 3, "[('x', '|u1')]");
  records.erase(records.find(", }") + 3, 11);
  EXPECT_THAT(with_inputs(records), AllOf(HasSubstr("records"), HasSubstr("np.save(path, x['name'])")));
  EXPECT_THAT(with_inputs("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
              HasSubstr("git lfs pull"));
  EXPECT_THAT(with_inputs(std::string("PK\x03\x04 an archive")), HasSubstr("numpy's .npz"));

  const Own labelled;
  labelled.write_labels(npy("<i2", "(25,)", std::string(50, '\0')));
  EXPECT_THAT(labelled.reason(), AllOf(HasSubstr("'<i2' (16-bit whole numbers) (25)"),
                                       HasSubstr("'<i4', '<i8'"), HasSubstr("save labels.astype(np.int32)")));
  labelled.write_labels(npy("<i4", "(25, 1, 1)", std::string(100, '\0')));
  EXPECT_THAT(labelled.reason(), HasSubstr("labels.reshape(-1)"));
  labelled.write_labels(npy("|u1", "(24, 4)", std::string(96, '\0')));
  EXPECT_THAT(labelled.reason(), HasSubstr("24 labels for 25 inputs"));
  labelled.write_labels(npy("<f4", "(25, 4)", std::string(400, '\0')));
  EXPECT_THAT(labelled.reason(), HasSubstr("labels.argmax(axis=1)"));
}

TEST(OwnArrays, MayHaveALabelAtEachPosition) {
  const Own own;
  std::string labels;
  for (int i = 0; i < 75; ++i) labels += static_cast<char>(i % 5);
  own.write_labels(npy("|u1", "(25, 3)", labels));
  const PreparedDataset read = prepare_dataset("npy", own.options);
  EXPECT_EQ(read.manifest.positions, 3);
  EXPECT_EQ(read.manifest.classes, 5);
  const HostTensor tested = read_npy(read.manifest.splits.at("test").labels);  // of samples 9 and 19
  ASSERT_EQ(tested.type.shape, (Shape{2, 3}));
  EXPECT_THAT(tested.as<std::int32_t>(), ElementsAre(27 % 5, 28 % 5, 29 % 5, 57 % 5, 58 % 5, 59 % 5));
  own.write_labels(npy("|u1", "(25, 99999999999)", std::string(75, '\0')));
  EXPECT_THAT(own.reason(), HasSubstr("reading it takes 4 times its size"));
  own.write_labels(npy("|i1", "(25, 3)", std::string(74, '\0') + '\xff'));
  EXPECT_THAT(own.reason(), AllOf(HasSubstr("label 2 of sample 24 is -1"), HasSubstr("a class of its own")));
}

TEST(OwnArrays, RefuseImagesWithTheChannelsLast) {
  const Own own;
  const auto with_shape = [&](const char* shape, std::size_t bytes) {
    write_atomically(own.folder / "npy" / "inputs.npy", npy("|u1", shape, std::string(bytes, '\1')), false);
    return own.reason();
  };
  for (const auto& [shape, bytes] : {std::pair{"(25, 8, 12, 3)", 7200}, {"(25, 9, 9, 1)", 2025}})
    EXPECT_THAT(with_shape(shape, static_cast<std::size_t>(bytes)),
                AllOf(HasSubstr(shape), HasSubstr("x.transpose(0, 3, 1, 2)")));
  EXPECT_EQ(with_shape("(25, 3, 8, 4)", 2400), "read") << "three channels, of 8 by 4 pixels";
  EXPECT_EQ(with_shape("(25, 9, 10, 1)", 2250), "read") << "nine channels of a sequence";
}

TEST(OwnArrays, AreMissingIfOneFileIsAndTheOthersAreNamed) {
  const Own own;
  const auto reason = [&] { return reason_of([&] { prepare_dataset("npy", own.options); }); };
  std::filesystem::remove(own.folder / "npy" / "inputs.npy");
  EXPECT_THAT(reason(), HasSubstr("/npy (there is labels.npy)"));
  std::filesystem::create_directory(own.folder / "npy" / "inputs.npy");
  EXPECT_THAT(reason(), HasSubstr("/npy (there are inputs.npy/, labels.npy)"));
}

TEST(OwnArrays, OfOneClassHaveNothingToLearn) {
  const Own own;
  EXPECT_EQ(why_nothing_is_learned(prepare_dataset("npy", own.options).manifest), "");
  own.write_labels(npy("|u1", "(25,)", std::string(25, '\3')));
  EXPECT_THAT(why_nothing_is_learned(prepare_dataset("npy", own.options).manifest),
              HasSubstr("all 21 training samples of npy are of class 3"));
}

TEST(OwnArrays, RefuseALabelThatWouldMakeAHugeNetwork) {
  const Own own;
  const auto with_label = [&](std::int32_t label) {
    std::string labels(100, '\0');
    std::memcpy(labels.data() + 12, &label, sizeof label);
    own.write_labels(npy("<i4", "(25,)", labels));
    const std::string described = reason_of(
        [&] { find_dataset("npy").format->describe({.here = true, .folder = own.folder / "npy"}); });
    EXPECT_EQ(described, own.reason());
    return described;
  };
  EXPECT_EQ(with_label(9'999), "read");
  for (const std::int32_t label : {10'000, 999'999, 1'000'000, 9'999'999, 2'147'483'647})
    EXPECT_THAT(with_label(label),
                HasSubstr(fmt::format(
                    "label 3 is {}, so the network would have {} classes, of which 2 occur in 25 samples",
                    label, std::int64_t{label} + 1)));
}

TEST(OwnArrays, AreRefusedBeforeTheyAreReadIfNoMemoryHoldsThem) {
  constexpr std::uintmax_t terabyte = std::uintmax_t{1} << 40;
  const Own inputs;
  write_atomically(inputs.folder / "npy" / "inputs.npy", npy("|u1", "(1099511627776, 1)", ""), false);
  std::filesystem::resize_file(inputs.folder / "npy" / "inputs.npy", 128 + terabyte);
  EXPECT_THAT(inputs.reason(), HasSubstr("reading it takes 4 times its size"));
  const auto described = reason_of(
      [&] { find_dataset("npy").format->describe({.here = true, .folder = inputs.folder / "npy"}); });
  EXPECT_THAT(described, HasSubstr("reading it takes 4 times its size"));
  for (const char* name : {"inputs.npy", "labels.npy"}) {
    const Own sparse;
    std::filesystem::resize_file(sparse.folder / "npy" / name, terabyte);
    EXPECT_THAT(sparse.reason(), HasSubstr("is too long: it has 1099511627776 bytes")) << name;
  }
}

// The files that scripts/fetch-data makes from a Keras archive with two training texts and two test texts
// (tests/python/test_keras_imdb.py): tokens and labels, in the order training, validation, test.
struct ConvertedReviews {
  TemporaryFolder folder;
  Dataset dataset{"imdb", "", {500}, 2, 2, 1, 1, "fetch and convert it", &own_arrays_format(), 5000};
  PrepareOptions options;
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(4 * 500);

  ConvertedReviews() {
    options.folders = {folder.path()};
    options.cache = folder / "cache";
    std::filesystem::create_directories(folder / "imdb");
    put(0, {1, 4, 17, 303, 2});
    put(1, {1});
    put(2, {1, 5});
    put(3, {1, 6});
    write_inputs();
    write_labels({1, 0, 0, 1});
  }
  void put(std::size_t sample, const std::vector<std::int32_t>& text) {
    std::copy_backward(text.begin(), text.end(),
                       tokens.begin() + static_cast<std::ptrdiff_t>((sample + 1) * 500));
  }
  void write_inputs() const {
    write_npy(folder / "imdb" / "inputs.npy", {DType::i32, {4, 500}}, std::span<const std::int32_t>(tokens));
  }
  void write_labels(const std::vector<std::int32_t>& labels) const {
    write_npy(folder / "imdb" / "labels.npy", {DType::i32, {static_cast<std::int64_t>(labels.size())}},
              std::span<const std::int32_t>(labels));
  }
  Manifest prepare() const { return prepare_stored_dataset(dataset, options).manifest; }
  std::string reason() const {
    return reason_of([&] { prepare(); });
  }
};

// The tokens of a sample without its padding.
std::vector<std::int32_t> text_of(const MappedNpy& inputs, std::int64_t sample) {
  const auto row = inputs.as<std::int32_t>().subspan(static_cast<std::size_t>(sample) * 500, 500);
  const auto begin = std::find_if(row.begin(), row.end(), [](std::int32_t token) { return token != 0; });
  return {begin, row.end()};
}

TEST(ImdbArrays, are_read_in_the_order_training_validation_test) {
  const ConvertedReviews reviews;
  const Manifest manifest = reviews.prepare();
  const Split &train = manifest.splits.at("train"), &validation = manifest.splits.at("validation"),
              &test = manifest.splits.at("test");
  EXPECT_EQ(manifest.vocabulary, 5000);
  EXPECT_EQ(manifest.classes, 2);
  EXPECT_EQ(manifest.sample_shape, Shape{500});
  EXPECT_EQ(train.first, 0);
  EXPECT_EQ(train.count, 2);
  EXPECT_EQ(validation.first, 0);
  EXPECT_EQ(validation.count, 1);
  EXPECT_EQ(test.first, 1);
  EXPECT_EQ(test.count, 1);
  EXPECT_EQ(validation.inputs, test.inputs) << "the two halves of the publisher: two arrays";
  const MappedNpy inputs(train.inputs), held(test.inputs);
  EXPECT_EQ(inputs.type().shape, (Shape{2, 500}));
  EXPECT_EQ(held.type().shape, (Shape{2, 500}));
  EXPECT_THAT(text_of(inputs, 0), ElementsAre(1, 4, 17, 303, 2));
  EXPECT_THAT(text_of(inputs, 1), ElementsAre(1));
  EXPECT_THAT(text_of(held, validation.first), ElementsAre(1, 5));
  EXPECT_THAT(text_of(held, test.first), ElementsAre(1, 6));
  const MappedNpy labels(train.labels), held_labels(test.labels);
  EXPECT_THAT(labels.as<std::int32_t>(), ElementsAre(1, 0));
  EXPECT_THAT(held_labels.as<std::int32_t>(), ElementsAre(0, 1));
}

TEST(ImdbArrays, refuse_arrays_that_no_conversion_writes) {
  ConvertedReviews reviews;
  reviews.write_labels({1, 0, 0, 2});
  EXPECT_THAT(reviews.reason(), HasSubstr("label 3 is 2; there are 2 classes"));
  reviews.write_labels({1, 0, 0});
  EXPECT_THAT(reviews.reason(), HasSubstr("3 labels for 4 inputs"));
  reviews.write_labels({1, 0, 0, 1});
  for (const std::int32_t bad : {5000, -1}) {
    reviews.tokens[2 * 500 + 7] = bad;
    reviews.write_inputs();
    EXPECT_THAT(reviews.reason(), HasSubstr(fmt::format("sample 2 contains the token {},", bad)));
  }
  const auto path = reviews.folder / "imdb" / "inputs.npy";
  const std::vector<std::int32_t> words(5 * 500);
  write_npy(path, {DType::i32, {5, 500}}, std::span<const std::int32_t>(words));
  EXPECT_THAT(reviews.reason(), AllOf(HasSubstr("'<i4' (32-bit whole numbers) (5, 500)"),
                                      HasSubstr("i32 (4, 500)"), HasSubstr("fetch and convert it")));
  write_npy(path, {DType::i32, {4, 400}}, std::span<const std::int32_t>(words).first(1600));
  EXPECT_THAT(reviews.reason(), HasSubstr("'<i4' (32-bit whole numbers) (4, 400)"));
  const std::vector<float> numbers(4 * 500);
  write_npy(path, {DType::f32, {4, 500}}, std::span<const float>(numbers));
  EXPECT_THAT(reviews.reason(), HasSubstr("'<f4' (32-bit real numbers) (4, 500)"));
  EXPECT_FALSE(std::filesystem::exists(reviews.folder / "cache" / "datasets"));
}

TEST(ImdbArrays, name_the_conversion_where_only_the_archive_is_there) {
  const ConvertedReviews reviews;
  std::filesystem::remove_all(reviews.folder / "imdb");
  std::filesystem::create_directories(reviews.folder / "imdb");
  write_atomically(reviews.folder / "imdb" / "imdb.npz", "PK", false);
  EXPECT_THROW(prepare_dataset("imdb", reviews.options), DatasetMissing);
  EXPECT_THAT(
      reason_of([&] { prepare_dataset("imdb", reviews.options); }),
      AllOf(HasSubstr((reviews.folder / "imdb").string()), HasSubstr("inputs.npy and labels.npy"),
            HasSubstr("scripts/fetch-data imdb"), HasSubstr("scripts/fetch-data --convert imdb.npz")));
}

}  // namespace
}  // namespace assay
