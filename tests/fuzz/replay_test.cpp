// Every file of the corpora through its target, in builds without libFuzzer too.
#include <algorithm>
#include <filesystem>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/io/file.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz {

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

namespace {

namespace fs = std::filesystem;

const fs::path corpora = ASSAY_FUZZ_CORPUS;

std::vector<fs::path> inputs_of(std::string_view target) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(corpora / target)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

class Corpus : public ::testing::TestWithParam<Target> {};

TEST_P(Corpus, IsReadOrRefused) {
  const std::vector<fs::path> files = inputs_of(GetParam().name);
  EXPECT_FALSE(files.empty()) << "the corpus is missing";
  for (const fs::path& file : files) {
    const std::vector<std::byte> bytes = read_file(file);
    EXPECT_NO_THROW(run(GetParam(), bytes)) << file;
  }
  EXPECT_NO_THROW(run(GetParam(), {})) << "an empty file";
}

// Cut short, and with each byte changed: what a fuzzer begins with.
TEST_P(Corpus, IsReadOrRefusedWhenItIsDamaged) {
  constexpr std::size_t places = 64;
  for (const fs::path& file : inputs_of(GetParam().name)) {
    const std::vector<std::byte> bytes = read_file(file);
    const std::size_t step = std::max<std::size_t>(1, bytes.size() / places);
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      EXPECT_NO_THROW(run(GetParam(), std::span(bytes).first(at))) << file << " cut to " << at << " bytes";
      std::vector<std::byte> changed = bytes;
      changed[at] ^= std::byte{0x10};
      EXPECT_NO_THROW(run(GetParam(), changed)) << file << " with byte " << at << " changed";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Corpora, AreOfTargets) {
  std::set<std::string> folders, names;
  for (const auto& entry : fs::directory_iterator(corpora)) folders.insert(entry.path().filename());
  for (const Target& target : targets()) names.emplace(target.name);
  EXPECT_EQ(folders, names);
}

}  // namespace
}  // namespace assay::fuzz
