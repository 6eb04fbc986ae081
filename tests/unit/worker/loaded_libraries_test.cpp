#include "harness/worker/loaded_libraries.hpp"

#include <algorithm>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

namespace assay {
namespace {

using ::testing::StartsWith;

const Library* named(const std::vector<Library>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Library& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

TEST(LoadedLibraries, have_paths_and_builds) {
  const auto all = loaded_libraries();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].path, std::filesystem::canonical("/proc/self/exe").string());
  for (const char* name : {"libassay_batch", "libc"}) {
    const Library* library = named(all, name);
    ASSERT_NE(library, nullptr) << name;
    EXPECT_TRUE(std::filesystem::exists(library->path)) << library->path;
    EXPECT_THAT(library->version, StartsWith("build-id ")) << name;
    EXPECT_GT(library->version.size(), 20U);
  }
}

TEST(LoadedLibraries, HaveTheSizeOfTheirFiles) {
  std::int64_t largest = 0;
  for (const Library& library : loaded_libraries())
    largest = std::max(largest, static_cast<std::int64_t>(std::filesystem::file_size(library.path)));
  EXPECT_GT(largest, 0);
  EXPECT_GT(loaded_bytes(), largest) << "the program and at least the C library";
}

TEST(LoadedLibraries, keep_the_descriptions_of_the_backend) {
  const Library* c = nullptr;
  const auto loaded = loaded_libraries();
  c = named(loaded, "libc");
  ASSERT_NE(c, nullptr);
  const auto all = with_loaded_libraries({{"C library", "2.36", c->path}, {"inside", "1", ""}});
  EXPECT_EQ(all.size(), loaded.size() + 1);
  EXPECT_EQ(all[0].version, "2.36");
  EXPECT_EQ(all[1].name, "inside");
  EXPECT_EQ(named(all, "libc"), nullptr) << "not a second time";
}

}  // namespace
}  // namespace assay
