// data/manifest.json of a cell folder: where the arrays of a data set lie and how their bytes become f32.
//
//   {"schema": "assay-data/1", "name": "fashion-mnist", "kind": "array", "sample_shape": [1, 28, 28],
//   "classes": 10,
//    "normalisation": {"scale": [0.00392156862745098], "shift": [0]},
//    "splits": {"train": {"inputs": "…/train-inputs.npy", "labels": "…/train-labels.npy", "first": 0,
//    "count": 48000}, …}}
//
// inputs: u8 or f32 (N, sample_shape...), or i32 tokens where there is a "vocabulary": whole numbers in [0,
// vocabulary), which are fed as they are; labels: i32 or u8 (N). A split is the samples [first, first +
// count) of its arrays; a plan counts from the split's first. Normalisation: x = raw * scale[c] + shift[c] in
// f32, c the first dimension of a sample, or one value for all. Paths are absolute or relative to the cell
// folder.
//
// A set of kind "encoded" has JPEG files: "inputs" is a text, a folder in its first line and a file within it
// in each of the others, and "resize" says how large a file becomes before a sample is cut out of it
// (encoded_source.hpp).
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
