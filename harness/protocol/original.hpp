// original.json of a cell folder (docs/reference/protocol.md): how a runtime runs the user's own file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/core/json/fields.hpp"

namespace assay {

// A tensor of the file that has no weights, and the tensor of the network whose value it gets.
struct OriginalTensor {
  std::string file{}, tensor{};
  bool transpose = false;
};
inline Description describe(Of<OriginalTensor>) {
  return fields(
      "original_tensor", "A tensor of the file that gets the value of a tensor of the network.",
      field("file", &OriginalTensor::file, "Its name in the file."),
      field("tensor", &OriginalTensor::tensor, "The name of that of the network in the graph."),
      field("transpose", &OriginalTensor::transpose, "Whether its two dimensions change places first.")
          .optional());
}

struct NeutralTensor {
  std::string file{};
  double value = 0;
};
inline Description describe(Of<NeutralTensor>) {
  return fields("neutral_tensor", "A tensor of the file that is filled with a number.",
                field("file", &NeutralTensor::file, "Its name in the file."),
                field("value", &NeutralTensor::value, "The number."));
}

// original.json of a cell folder.
struct OriginalModel {
  std::string input{}, output{};
  std::vector<OriginalTensor> drawn{};
  std::vector<NeutralTensor> neutral{};
  std::map<std::string, std::string> bound{};
  std::int64_t batch = 0;
};
inline Description describe(Of<OriginalModel>) {
  return fields(
      "original", "How `original.onnx` computes the network.",
      field("input", &OriginalModel::input, "The input of the file that is fed."),
      field("output", &OriginalModel::output, "The tensor of the file that is the logits."),
      field("drawn", &OriginalModel::drawn, "Its tensors without weights.").optional(),
      field("neutral", &OriginalModel::neutral, "Its tensors that are filled with a number.").optional(),
      field("bound", &OriginalModel::bound, "Its other inputs, and their values.").optional(),
      field("batch", &OriginalModel::batch, "The only batch that it computes; 0: any.")
          .optional()
          .at_least(0));
}

}  // namespace assay
