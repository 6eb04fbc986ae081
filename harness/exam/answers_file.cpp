#include "harness/exam/answers_file.hpp"

#include <algorithm>

#include "harness/core/io/safetensors.hpp"

namespace assay {

void write_exam_answers(const std::filesystem::path& cell_folder, std::vector<HostTensor> answers) {
  for (HostTensor& tensor : answers) {
    if (tensor.type.dtype != DType::f64) continue;
    HostTensor narrow = HostTensor::zeros(std::move(tensor.name), {DType::f32, tensor.type.shape});
    std::ranges::transform(tensor.as<double>(), narrow.as<float>().begin(),
                           [](double value) { return static_cast<float>(value); });
    tensor = std::move(narrow);
  }
  std::filesystem::create_directories(cell_folder / "results");
  write_safetensors(cell_folder / "results/verify.safetensors", answers);
}

}  // namespace assay
