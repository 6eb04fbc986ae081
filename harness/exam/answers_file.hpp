// results/verify.safetensors.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/core/tensor.hpp"

namespace assay {

// Writes them in F32, but masks as they are.
void write_exam_answers(const std::filesystem::path& cell_folder, std::vector<HostTensor> answers);

}  // namespace assay
