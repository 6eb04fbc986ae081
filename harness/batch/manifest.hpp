// data/manifest.json of a cell folder: where the arrays of a data set are and how their bytes become f32. The
// normative text is docs/protocol.md, "The data set"; this is its summary.
//
//   {"schema": "assay-data/1", "name": "fashion-mnist", "kind": "array",
//    "sample_shape": [1, 28, 28], "classes": 10,
//    "normalisation": {"scale": [0.00392156862745098], "shift": [0]},
//    "splits": {"train": {"inputs": "…/train-inputs.npy", "labels": "…/train-labels.npy",
//                         "first": 0, "count": 48000}, …}}
//
//   inputs         u8 or f32 (N, sample_shape...); with "vocabulary": i32 (N, sample_shape...), tokens in
//                  [0, vocabulary), which are fed unchanged
//   labels         i32 or u8 (N), in [0, classes)
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
#include <map>
#include <string>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

struct Split {
  std::filesystem::path inputs;
  std::filesystem::path labels;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

struct Manifest {
  std::string name;
  std::string kind = "array";
  Shape sample_shape;  // (C, H, W)
  std::int64_t classes = 0;
  std::int64_t vocabulary = 0;     // above 0: samples are i32 tokens below it, not normalised
  std::int64_t resize = 0;         // of "encoded": pixels of the shorter side
  std::vector<float> scale = {1};  // one per channel, or one
  std::vector<float> shift = {0};
  std::map<std::string, Split> splits;  // "train", "validation", "test"

  bool tokens() const { return vocabulary > 0; }
};

// Every field is checked; paths are made absolute with `cell_folder`. Throws IoError.
Manifest read_manifest(const std::filesystem::path& cell_folder);
// Writes data/manifest.json, making the folder. Throws IoError.
void write_manifest(const std::filesystem::path& cell_folder, const Manifest& manifest);

}  // namespace assay
