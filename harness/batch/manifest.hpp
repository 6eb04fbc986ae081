// data/manifest.json of a cell folder: the files of a data set's arrays and how their bytes become f32. The
// normative text is docs/reference/protocol.md, "The data set"; this is its summary.
//
//   {"schema": "assay-data/1", "name": "fashion-mnist", "kind": "array",
//    "sample_shape": [1, 28, 28], "classes": 10,
//    "normalisation": {"scale": [0.00392156862745098], "shift": [0]},
//    "splits": {"train": {"inputs": "…/train-inputs.npy", "labels": "…/train-labels.npy",
//                         "first": 0, "count": 48000}, …}}
//
//   inputs         u8 or f32 (N, sample_shape...); with "vocabulary": i32 (N, sample_shape...), tokens in
//                  [0, vocabulary), which are fed unchanged
//   labels         i32 or u8 (N), in [0, classes); with "positions": i32 (N, positions), where -1 does not count
//   first, count   the split is the samples [first, first + count) of its arrays; plans count from `first`
//   normalisation  x = raw * scale[c] + shift[c] in f32, where c is the index in the first dimension of a
//                  sample; a list of one value applies to every c
//
// Paths are absolute or relative to the cell folder. In a set of kind "encoded" the samples are JPEG files:
// "inputs" is a text file whose first line is a folder and whose other lines are files in it, and "resize" is
// the size to which an image is scaled before the sample is cut out of it (encoded_source.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "harness/core/domain.hpp"
#include "harness/core/json/fields.hpp"
#include "harness/core/tensor.hpp"
#include "harness/core/words.hpp"

namespace assay {

struct Split {
  std::filesystem::path inputs{};
  std::filesystem::path labels{};
  std::int64_t first = 0;
  std::int64_t count = 0;
};
inline Description describe(Of<Split>) {
  constexpr double max_samples = std::numeric_limits<std::int32_t>::max();
  return fields("split", "A part of the set.", field("inputs", &Split::inputs, "Samples.").not_empty(),
                field("labels", &Split::labels, "Labels of the samples.").not_empty(),
                field("first", &Split::first, "Its first sample in the arrays.").between(0, max_samples),
                field("count", &Split::count, "Samples.").between(1, max_samples));
}

struct Normalisation {
  std::vector<float> scale = {1};  // one per channel, or one
  std::vector<float> shift = {0};
  bool operator==(const Normalisation&) const = default;
};
inline Description describe(Of<Normalisation>) {
  return fields("normalisation", "x = raw * scale[c] + shift[c].",
                field("scale", &Normalisation::scale, "One for each channel, or one for all."),
                field("shift", &Normalisation::shift, "One for each channel, or one for all."));
}

enum class StorageKind { array, encoded };
template <>
inline constexpr auto words<StorageKind> =
    std::array{Word{StorageKind::array, "array"}, Word{StorageKind::encoded, "encoded"}};

struct Manifest {
  static constexpr std::string_view version = "assay-data/1";
  static constexpr std::int64_t max_elements = std::int64_t{1} << 31;  // limit for a sample
  static constexpr std::int64_t max_side = 1 << 14;

  std::string schema{version};
  std::string name{};
  StorageKind kind = StorageKind::array;
  Shape sample_shape{};  // (C, H, W)
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;  // above 0: samples are i32 tokens below it, not normalised
  std::int64_t positions = 0;   // above 0: a sample has that many labels; 0: one label
  std::int64_t resize = 0;      // for "encoded": pixels of the shorter side
  Normalisation normalisation{};
  std::map<std::string, Split> splits{};  // "train", "validation", "test"

  bool tokens() const { return vocabulary > 0; }
  std::int64_t labels_of_sample() const { return positions > 0 ? positions : 1; }
};
inline Description describe(Of<Manifest>) {
  constexpr double max_tokens = std::numeric_limits<std::int32_t>::max();
  return fields(
      "manifest", "A data set in a cell folder.",
      field("schema", &Manifest::schema, "The version of this format.").one_of(Manifest::version),
      field("name", &Manifest::name, "As --dataset names it.").not_empty(),
      field("kind", &Manifest::kind, "array or encoded."),
      field("sample_shape", &Manifest::sample_shape, "Shape of one sample.")
          .not_empty()
          .between(1, static_cast<double>(Manifest::max_elements)),
      field("classes", &Manifest::classes, "Number of classes.").between(1, static_cast<double>(max_classes)),
      field("vocabulary", &Manifest::vocabulary, "For sets of tokens: the number of different tokens.")
          .between(1, max_tokens)
          .left_out_by_default(),
      field("positions", &Manifest::positions,
            "For sets with several labels for each sample: how many. Absent: one label.")
          .between(1, static_cast<double>(Manifest::max_elements))
          .left_out_by_default(),
      field("resize", &Manifest::resize, "For kind encoded: pixels of the shorter side.")
          .between(1, static_cast<double>(Manifest::max_side))
          .left_out_by_default(),
      field("normalisation", &Manifest::normalisation, "Converts bytes to numbers."),
      field("splits", &Manifest::splits, "By name."));
}

// Checks every field; makes paths absolute with `cell_folder`. Throws JsonError.
Manifest read_manifest(const std::filesystem::path& cell_folder);
// Writes data/manifest.json and creates its folder. Throws IoError.
void write_manifest(const std::filesystem::path& cell_folder, const Manifest& manifest);

}  // namespace assay
