// The manifest of a prepared data set, over arrays, tokens and images that are there.
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "harness/batch/manifest.hpp"
#include "harness/batch/source.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/jpeg_file.hpp"

namespace assay::fuzz::of_manifest {
namespace {

constexpr std::int64_t samples = 12;

// inputs.npy (12, 2, 2, 3) of bytes, tokens.npy (12, 4), labels.npy, and images.txt with one image twelve times.
const std::filesystem::path& cell_folder() {
  static const std::filesystem::path folder = [] {
    const std::filesystem::path made = scratch() / "cell";
    std::filesystem::create_directories(made / "data");
    std::vector<std::uint8_t> inputs(samples * 12);
    std::vector<std::int32_t> tokens(samples * 4), labels(samples);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<std::uint8_t>(i * 31);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i % 10);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 5);
    write_npy(made / "data/inputs.npy", {DType::u8, {samples, 2, 2, 3}},
              std::span<const std::uint8_t>(inputs));
    write_npy(made / "data/tokens.npy", {DType::i32, {samples, 4}}, std::span<const std::int32_t>(tokens));
    write_npy(made / "data/labels.npy", {DType::i32, {samples}}, std::span<const std::int32_t>(labels));
    write_atomically(made / "data/image.jpg", plain_jpeg(6, 5, 200, 100, 50), false);
    std::ofstream list(made / "data/images.txt");
    list << (made / "data").string() << '\n';
    for (std::int64_t i = 0; i < samples; ++i) list << "image.jpg\n";
    return made;
  }();
  return folder;
}

void read_samples(const Manifest& manifest, const Source& source) {
  constexpr std::int64_t max_elements = 1 << 16;
  const std::int64_t elements = element_count(manifest.sample_shape);
  require(source.samples() >= 1, "a split has samples");
  if (elements > max_elements) return;
  std::vector<float> values(static_cast<std::size_t>(elements));
  if (manifest.positions > max_elements) return;
  std::vector<std::int32_t> labels(static_cast<std::size_t>(manifest.labels_of_sample()));
  for (std::int32_t i = 0; i < source.samples() && i < samples; ++i) {
    source.read({i, 0, 0, 0}, values.data());
    source.labels(i, labels.data());
    for (const std::int32_t label : labels) {
      const bool counts = label >= 0 || manifest.positions == 0;
      require(!counts || (label >= 0 && label < manifest.classes), "a label is a class");
    }
  }
}

const Registration here("manifest", [](Input input) {
  const std::filesystem::path& folder = cell_folder();
  std::ofstream file(folder / "data/manifest.json", std::ios::binary | std::ios::trunc);
  file << text_of(input);
  file.close();
  SourceOpener opener(read_manifest(folder));
  const Manifest& manifest = opener.manifest();
  for (const auto& [name, split] : manifest.splits) {
    require(split.inputs.is_absolute() && split.count >= 1, "a split is a part of a file");
    read_samples(manifest, *opener.open(name));
  }
});

}  // namespace
}  // namespace assay::fuzz::of_manifest
