#include "harness/conductor/fork/given_files.hpp"

#include <utility>

#include <fmt/format.h>

#include "harness/core/io/sha256.hpp"

namespace assay {
namespace {

constexpr std::uintmax_t max_digested_bytes = 32 << 20;

}  // namespace

GivenFiles::GivenFiles(const std::filesystem::path& folder, const SetExam& set, const RankPlace& place)
    : folder_(folder),
      set_(set),
      own_(digests_of(folder)),
      data_(digests_of_small(
          folder / "data")),  // the arrays of a data set are in the cache, which a worker cannot write
      exam_(place.world == 1 ? set.digests : digests_of(folder / "check")) {
  own_.erase("log");  // written while the worker runs
  for (auto& [name, digest] : digests_of_small(folder / "epochs"))
    own_.emplace("epochs/" + name, std::move(digest));
}

std::string GivenFiles::changed() const {
  std::string name = first_change(own_, folder_);
  if (name.empty()) name = first_change(data_, folder_ / "data");
  if (name.empty()) name = first_change(exam_, folder_ / "check");
  if (name.empty() && sha256_of_file(set_.exam.answers) != set_.answers_digest) name = "the oracle's answers";
  return name.empty() ? name
                      : fmt::format("the worker changed {}, an input file that it must not change", name);
}

// Empty if the folder does not exist.
GivenFiles::Digests GivenFiles::digests_of_small(const std::filesystem::path& folder) {
  return std::filesystem::is_directory(folder) ? digests_of(folder, max_digested_bytes) : Digests();
}

std::string GivenFiles::first_change(const Digests& given, const std::filesystem::path& folder) const {
  for (const auto& [name, digest] : given) {
    const std::filesystem::path path = folder / name;
    if (!std::filesystem::is_regular_file(path) || sha256_of_file(path) != digest)
      return path.lexically_relative(folder_).string();
  }
  return {};
}

}  // namespace assay
