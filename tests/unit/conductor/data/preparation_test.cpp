#include "harness/conductor/data/preparation.hpp"

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/sample_files.hpp"
#include "harness/conductor/data/synthetic.hpp"
#include "harness/conductor/data/synthetic_tokens.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/npy.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using testing::HasSubstr;

// A set of 5 + 2 training and 3 test images of 4 by 3.
struct Little {
  TemporaryFolder folder;
  Dataset dataset{"little", "", {1, 4, 3}, 10, 5, 2, 3, "bring it", &idx_format()};
  PrepareOptions options;

  Little() {
    options.folders = {folder / "nothing", folder / "data"};
    options.cache = folder / "cache";
    std::filesystem::create_directories(home());
    write("train-images-idx3-ubyte", {7, 4, 3}, 1);
    write("train-labels-idx1-ubyte", {7}, 0);
    write("t10k-images-idx3-ubyte", {3, 4, 3}, 2);
    write("t10k-labels-idx1-ubyte", {3}, 0);
  }
  std::filesystem::path home() const { return folder / "data" / "little"; }
  void write(const std::string& name, const Shape& shape, int first) const {
    IdxArray array{shape, std::vector<std::byte>(static_cast<std::size_t>(element_count(shape)))};
    for (std::size_t i = 0; i < array.bytes.size(); ++i)
      array.bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(first) + i);
    write_idx(home() / name, array);
  }
  PreparedDataset prepare() const { return prepare_stored_dataset(dataset, options); }
  std::string reason() const {
    try {
      prepare();
    } catch (const std::exception& error) {
      EXPECT_FALSE(std::filesystem::exists(folder / "cache" / "datasets"))
          << "nothing is written before all is checked";
      return error.what();
    }
    return "prepared";
  }
};

TEST(Preparation, splits_training_images_and_keeps_test_images) {
  const Little little;
  const PreparedDataset prepared = little.prepare();
  const auto& splits = prepared.manifest.splits;
  EXPECT_EQ(splits.at("train").first, 0);
  EXPECT_EQ(splits.at("train").count, 5);
  EXPECT_EQ(splits.at("validation").first, 5);
  EXPECT_EQ(splits.at("validation").count, 2);
  EXPECT_EQ(splits.at("validation").inputs, splits.at("train").inputs);
  EXPECT_EQ(splits.at("test").count, 3);
  const MappedNpy inputs(splits.at("train").inputs);
  EXPECT_EQ(inputs.type(), (TensorType{DType::u8, {7, 1, 4, 3}}));
  EXPECT_EQ(inputs.as<std::uint8_t>()[20], 21);
  EXPECT_EQ(MappedNpy(splits.at("test").labels).as<std::int32_t>()[2], 2);
  EXPECT_EQ(prepared.provenance.folder, little.home());
  EXPECT_EQ(prepared.provenance.checksum.value().size(), 64u);

  write_manifest(little.folder / "cell", prepared.manifest);
  const Manifest read = read_manifest(little.folder / "cell");
  EXPECT_EQ(read.splits.at("test").inputs, splits.at("test").inputs);
  EXPECT_EQ(read.sample_shape, (Shape{1, 4, 3}));
  EXPECT_EQ(read.normalisation.scale, (std::vector<float>{1.0f / 255}));
}

TEST(Preparation, uses_the_cache_and_replaces_damaged_or_old_entries) {
  const Little little;
  const PreparedDataset first = little.prepare();
  const std::filesystem::path inputs = first.manifest.splits.at("train").inputs;
  const auto written = std::filesystem::last_write_time(inputs);
  EXPECT_EQ(little.prepare().provenance.checksum, first.provenance.checksum);
  EXPECT_EQ(std::filesystem::last_write_time(inputs), written);
  std::filesystem::resize_file(inputs, 100);
  little.prepare();
  EXPECT_EQ(MappedNpy(inputs).type().shape[0], 7);
  std::string bytes = read_text(inputs);
  const char was = bytes.back();
  bytes.back() = static_cast<char>(was ^ 1);
  write_atomically(inputs, bytes, false);
  little.prepare();
  EXPECT_EQ(read_text(inputs).back(), was) << "a byte of the cache was another one";
  little.write("train-images-idx3-ubyte", {7, 4, 3}, 9);
  const PreparedDataset other = little.prepare();
  EXPECT_NE(other.provenance.checksum, first.provenance.checksum);
  EXPECT_NE(other.manifest.splits.at("train").inputs, inputs);
}

TEST(Preparation, is_safe_for_several_at_once) {
  const Little little;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        const PreparedDataset prepared = little.prepare();
        EXPECT_EQ(MappedNpy(prepared.manifest.splits.at("train").inputs).as<std::uint8_t>()[83], 84);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Preparation, finds_the_publishers_names_in_all_their_spellings) {
  const Little little;
  std::filesystem::rename(little.home() / "train-images-idx3-ubyte",
                          little.home() / "train-images.idx3-ubyte");
  write_gzip(little.home() / "t10k-labels-idx1-ubyte.gz",
             read_text(little.home() / "t10k-labels-idx1-ubyte"));
  std::filesystem::remove(little.home() / "t10k-labels-idx1-ubyte");
  EXPECT_EQ(little.prepare().manifest.splits.at("test").count, 3);
  EXPECT_TRUE(locate_dataset(little.dataset, little.options.folders).here);
}

TEST(Preparation, ReportsAFolderThatCannotBeRead) {
  const Little little;
  std::filesystem::create_directories(little.folder / "nothing");
  std::filesystem::create_symlink("little", little.folder / "nothing" / "little");  // to itself
  std::filesystem::remove_all(little.home());
  EXPECT_THAT(little.reason(), HasSubstr("nothing/little (Too many levels of symbolic links)"));
}

TEST(Preparation, FindsTheFoldersOfTorchvision) {
  Little little;
  little.dataset.other_place = "Little/raw";
  std::filesystem::create_directories(little.folder / "data" / "Little");
  std::filesystem::rename(little.home(), little.folder / "data" / "Little" / "raw");
  EXPECT_EQ(little.prepare().provenance.folder, little.folder / "data" / "Little" / "raw");
  EXPECT_EQ(locate_dataset(little.dataset, little.options.folders).folder,
            little.folder / "data" / "Little" / "raw");
  EXPECT_EQ(find_dataset("mnist").other_place, "MNIST/raw");
  EXPECT_EQ(find_dataset("fashion-mnist").other_place, "FashionMNIST/raw");
}

TEST(Preparation, reports_where_it_searched_and_how_to_get_the_set) {
  const Little little;
  std::filesystem::remove(little.home() / "t10k-labels-idx1-ubyte");
  EXPECT_THROW(little.prepare(), DatasetMissing);
  const std::string reason = little.reason();
  EXPECT_THAT(reason, HasSubstr((little.folder / "nothing" / "little").string()));
  EXPECT_THAT(reason, HasSubstr(little.home().string()));
  EXPECT_THAT(reason, HasSubstr("bring it"));
  const DatasetPlace place = locate_dataset(little.dataset, little.options.folders);
  EXPECT_FALSE(place.here);
  EXPECT_EQ(place.remedy, "bring it");
  PrepareOptions nowhere;
  nowhere.folders = {"/nowhere"};
  try {
    prepare_dataset("fashion-mnist", nowhere);
    FAIL();
  } catch (const DatasetMissing& missing) {
    EXPECT_THAT(missing.what(), HasSubstr("apt-get install dataset-fashion-mnist"));
  }
}

TEST(Preparation, refuses_files_that_disagree_or_are_damaged) {
  Little counts;
  counts.write("train-labels-idx1-ubyte", {6}, 0);
  EXPECT_THAT(counts.reason(), HasSubstr("(6) labels for 7 images"));
  Little few;
  few.write("train-images-idx3-ubyte", {6, 4, 3}, 0);
  EXPECT_THAT(few.reason(), HasSubstr("(6, 4, 3), but little has (7, 4, 3)"));
  Little label;
  label.write("t10k-labels-idx1-ubyte", {3}, 9);
  EXPECT_THAT(label.reason(), HasSubstr("label 1 is 10, but little has 10 classes"));
  Little swapped;
  std::filesystem::copy_file(swapped.home() / "train-labels-idx1-ubyte",
                             swapped.home() / "train-images-idx3-ubyte",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(swapped.reason(), HasSubstr("contains (7)"));
  Little cut;
  write_gzip(cut.home() / "train-images-idx3-ubyte", read_text(cut.home() / "train-images-idx3-ubyte"));
  std::filesystem::resize_file(cut.home() / "train-images-idx3-ubyte", 40);
  EXPECT_THAT(cut.reason(), HasSubstr("train-images-idx3-ubyte: is truncated"));
}

TEST(Preparation, RefusesASparseFileBeforeItIsSummed) {
  for (const char* name : {"train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const Little sparse;
    std::filesystem::resize_file(sparse.home() / name, std::uintmax_t{1} << 40);
    EXPECT_THAT(sparse.reason(), HasSubstr("is too long: it has 1099511627776 bytes")) << name;
  }
}

TEST(Preparation, says_that_the_cache_cannot_be_made) {
  Little little;
  write_atomically(little.folder / "file", "");
  little.options.cache = little.folder / "file";
  EXPECT_THAT(little.reason(), HasSubstr("name another folder with ASSAY_CACHE"));
}

TEST(Preparation, knows_no_other_set) {
  try {
    prepare_dataset("fashion-mnits", {});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'fashion-mnist'"));
  }
}

TEST(Preparation, makes_synthetic_sets_in_the_shape_asked_for) {
  const TemporaryFolder folder;
  PrepareOptions options;
  options.cache = folder.path();
  options.sample_shape = {3, 64, 64};
  options.classes = 4;
  const PreparedDataset prepared = prepare_dataset("synthetic", options);
  EXPECT_EQ(prepared.manifest.sample_shape, options.sample_shape);
  EXPECT_EQ(prepared.manifest.classes, 4);
  const MappedNpy inputs(prepared.manifest.splits.at("test").inputs);
  EXPECT_EQ(inputs.type().shape[0], prepared.manifest.splits.at("test").count);
  EXPECT_LT(MappedNpy(prepared.manifest.splits.at("train").inputs).bytes().size(), 100u << 20)
      << "large samples are fewer";
}

TEST(Datasets, are_searched_in_options_then_environment_then_system) {
  ::setenv("ASSAY_DATA", "/one::/two", 1);
  ::setenv("HOME", "/home/me", 1);
  const std::vector<std::filesystem::path> given = {"/given"};
  EXPECT_THAT(dataset_folders(given),
              testing::ElementsAre("/given", "/one", "/two", "/home/me/.local/share/datasets",
                                   "/usr/local/share/datasets", "/usr/share/datasets"));
  ::unsetenv("ASSAY_DATA");
}

TEST(Synthetic, repeats_itself_and_holds_every_class_equally_often) {
  const SyntheticSpec spec{true, {1, 5, 5}, 7, 700};
  const SyntheticData data = make_synthetic(spec, "train");
  EXPECT_EQ(data.inputs, make_synthetic(spec, "train").inputs);
  EXPECT_NE(data.inputs, make_synthetic(spec, "test").inputs);
  std::vector<int> counts(7);
  for (const std::int32_t label : data.labels) ++counts.at(static_cast<std::size_t>(label));
  EXPECT_THAT(counts, testing::Each(100));
}

// The nearest class mean of one stream names the class of another, where there is something to learn.
double nearest_mean_accuracy(bool learnable) {
  const SyntheticSpec spec{learnable, {1, 8, 8}, 10, 2000};
  const SyntheticData train = make_synthetic(spec, "train");
  const SyntheticData test = make_synthetic(spec, "test");
  std::vector<double> means(10 * 64);
  for (std::size_t i = 0; i < 2000; ++i)
    for (std::size_t e = 0; e < 64; ++e)
      means[static_cast<std::size_t>(train.labels[i]) * 64 + e] += train.inputs[i * 64 + e] / 200.0;
  int right = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    std::size_t best = 0;
    double least = 1e300;
    for (std::size_t c = 0; c < 10; ++c) {
      double distance = 0;
      for (std::size_t e = 0; e < 64; ++e)
        distance += std::pow(means[c * 64 + e] - test.inputs[i * 64 + e], 2);
      if (distance < least) least = distance, best = c;
    }
    right += best == static_cast<std::size_t>(test.labels[i]);
  }
  return right / 2000.0;
}

TEST(Synthetic, can_be_learnt_or_not_as_its_kind_says) {
  EXPECT_GT(nearest_mean_accuracy(true), 0.8);
  EXPECT_LT(nearest_mean_accuracy(false), 0.15);
}

TEST(Synthetic, takes_any_shape_and_a_thousand_classes) {
  for (const Shape& shape : {Shape{7}, Shape{3, 5}, Shape{3, 1, 1}, Shape{2, 33, 17}}) {
    const SyntheticData data = make_synthetic({true, shape, 1000, 1100}, "train");
    EXPECT_EQ(data.inputs.size(), 1100u * static_cast<std::size_t>(element_count(shape)));
    EXPECT_EQ(*std::max_element(data.labels.begin(), data.labels.end()), 999);
  }
  EXPECT_THROW(make_synthetic({true, {2}, 0, 1}, "train"), DataError);
}

TEST(SyntheticTokens, are_prepared_as_i32_below_the_vocabulary) {
  const TemporaryFolder folder;
  PrepareOptions options;
  options.cache = folder.path();
  options.sample_shape = {2000};
  options.classes = 2;
  options.vocabulary = 100;
  const PreparedDataset prepared = prepare_dataset("synthetic", options);
  EXPECT_EQ(prepared.manifest.vocabulary, 100);
  const MappedNpy inputs(prepared.manifest.splits.at("train").inputs);
  EXPECT_EQ(inputs.type().dtype, DType::i32);
  EXPECT_LT(inputs.bytes().size(), 100u << 20) << "long texts are fewer";
  for (const std::int32_t token : inputs.as<std::int32_t>()) ASSERT_TRUE(token >= 0 && token < 100);
}

TEST(SyntheticTokens, are_padded_in_front_and_have_balanced_classes) {
  const SyntheticTokensSpec spec{true, 40, 500, 4, 400};
  const SyntheticTokens data = make_synthetic_tokens(spec, "train");
  EXPECT_EQ(data.inputs, make_synthetic_tokens(spec, "train").inputs);
  EXPECT_NE(data.inputs, make_synthetic_tokens(spec, "test").inputs);
  std::vector<int> counts(4);
  for (const std::int32_t label : data.labels) ++counts.at(static_cast<std::size_t>(label));
  EXPECT_THAT(counts, testing::Each(100));
  int shortest = 40;
  for (std::size_t i = 0; i < 400; ++i) {
    const std::span<const std::int32_t> row(data.inputs.data() + i * 40, 40);
    const auto start = std::find(row.begin(), row.end(), 1);
    ASSERT_NE(start, row.end());
    EXPECT_TRUE(std::all_of(row.begin(), start, [](std::int32_t token) { return token == 0; }));
    EXPECT_TRUE(std::all_of(start + 1, row.end(), [](std::int32_t t) { return t >= 3 && t < 500; }));
    shortest = std::min(shortest, static_cast<int>(row.end() - start));
  }
  EXPECT_GE(shortest, 10);
  EXPECT_LT(shortest, 14);
}

// A word leans to the class whose texts contain it more often; a text is of the class to which its words lean
// to.
double word_count_accuracy(bool learnable) {
  const SyntheticTokensSpec spec{learnable, 100, 500, 2, 1000};
  const SyntheticTokens train = make_synthetic_tokens(spec, "train");
  const SyntheticTokens test = make_synthetic_tokens(spec, "test");
  std::vector<double> lean(500), seen(500, 1);
  for (std::size_t i = 0; i < train.inputs.size(); ++i) {
    const auto word = static_cast<std::size_t>(train.inputs[i]);
    lean[word] += train.labels[i / 100] == 1 ? 1 : -1;
    seen[word] += 1;
  }
  int right = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    double sum = 0;
    for (std::size_t t = 0; t < 100; ++t) {
      const auto word = static_cast<std::size_t>(test.inputs[i * 100 + t]);
      if (word > 1) sum += lean[word] / seen[word];
    }
    right += (sum > 0) == (test.labels[i] == 1);
  }
  return right / 1000.0;
}

TEST(SyntheticTokens, can_be_learnt_or_not_as_their_kind_says) {
  EXPECT_GT(word_count_accuracy(true), 0.9);
  EXPECT_LT(word_count_accuracy(false), 0.6);
}

TEST(SyntheticTokens, ArePaddedAtTheEndIfThePaddingIsNamed) {
  SyntheticTokensSpec spec{true, 40, 500, 4, 400};
  const SyntheticTokens in_front = make_synthetic_tokens(spec, "train");
  spec.padding = 0;
  const SyntheticTokens data = make_synthetic_tokens(spec, "train");
  EXPECT_EQ(data.labels, in_front.labels);
  std::set<std::ptrdiff_t> lengths;
  for (std::size_t i = 0; i < 400; ++i) {
    const std::span<const std::int32_t> row(data.inputs.data() + i * 40, 40);
    const auto end = std::find(row.begin(), row.end(), 0);
    EXPECT_EQ(row[0], 1);
    EXPECT_TRUE(std::all_of(end, row.end(), [](std::int32_t token) { return token == 0; }));
    lengths.insert(end - row.begin());
  }
  EXPECT_GE(*lengths.begin(), 10);
  EXPECT_EQ(*lengths.rbegin(), 40);
  EXPECT_GT(lengths.size(), 20U);
  spec.padding = 7;
  EXPECT_THROW(make_synthetic_tokens(spec, "train"), DataError);
}

TEST(SyntheticChains, HaveTheNextTokenAsLabelAndFollowTheirRule) {
  for (const bool learnable : {true, false}) {
    const SyntheticTokensSpec spec{learnable, 30, 65, 65, 500};
    const SyntheticTokens data = make_synthetic_chains(spec, "train");
    EXPECT_EQ(data.inputs, make_synthetic_chains(spec, "train").inputs);
    EXPECT_NE(data.inputs, make_synthetic_chains(spec, "test").inputs);
    ASSERT_EQ(data.labels.size(), data.inputs.size());
    std::map<std::pair<std::int32_t, std::int32_t>, int> pairs;
    for (std::size_t i = 0; i < data.inputs.size(); ++i) {
      ASSERT_TRUE(data.inputs[i] >= 0 && data.inputs[i] < 65);
      if (i % 30 != 29) {
        ASSERT_EQ(data.labels[i], data.inputs[i + 1]);
      }
      ++pairs[{data.inputs[i], data.labels[i]}];
    }
    // Of 15000 pairs, four in five are among 4 * 65 if there is a rule; else 65 * 65 are equally likely.
    int frequent = 0;
    for (const auto& [pair, count] : pairs) frequent += count > 20 ? count : 0;
    EXPECT_EQ(frequent > 10000, learnable) << frequent;
  }
}

TEST(SyntheticChains, ArePreparedWithALabelForEachPosition) {
  TemporaryFolder cache;
  PrepareOptions options;
  options.cache = cache.path();
  options.sample_shape = {16};
  options.classes = options.vocabulary = 65;
  options.next_token = true;
  const PreparedDataset prepared = prepare_dataset("synthetic", options);
  EXPECT_EQ(prepared.manifest.positions, 16);
  const Split& split = prepared.manifest.splits.at("validation");
  const MappedNpy labels(split.labels);
  EXPECT_EQ(labels.type().shape[1], 16);
  EXPECT_EQ(split.count, 12000);
}

TEST(SyntheticImages, HaveALabelAtEachPositionThatFollowsFromTheFirst) {
  TemporaryFolder cache;
  PrepareOptions options;
  options.cache = cache.path();
  options.sample_shape = {1, 8, 8};
  options.classes = 3;
  options.positions = 4;
  const PreparedDataset prepared = prepare_dataset("synthetic", options);
  EXPECT_EQ(prepared.manifest.positions, 4);
  const HostTensor labels = read_npy(prepared.manifest.splits.at("test").labels);
  ASSERT_EQ(labels.type.shape, (Shape{10'000, 4}));
  const std::span<const std::int32_t> of = labels.as<std::int32_t>();
  for (std::size_t i = 0; i < of.size(); ++i) ASSERT_EQ(of[i], (of[i / 4 * 4] + static_cast<int>(i % 4)) % 3);
}

TEST(SyntheticTokens, refuse_a_vocabulary_that_is_too_small_for_the_classes) {
  EXPECT_THROW(make_synthetic_tokens({true, 10, 5, 2, 10}, "train"), DataError);
}

}  // namespace
}  // namespace assay
