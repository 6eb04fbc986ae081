// The tensors that a worker wrote: the file, and the checks of an exam that look at tensors by name.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/conductor/check/audit.hpp"
#include "harness/conductor/check/self_judge.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/graph/passes/precision.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/unit/conductor/check/answered_exam.hpp"

namespace assay::fuzz::of_tensors {
namespace {

constexpr std::uint64_t limit = 1 << 20;

bool equal(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  return std::ranges::equal(a, b, [](const HostTensor& x, const HostTensor& y) {
    return x.name == y.name && x.type == y.type && x.bytes == y.bytes;
  });
}

void read_file_of_tensors(const std::filesystem::path& file, Input input) {
  const std::vector<HostTensor> tensors = read_foreign_safetensors(file, limit);
  std::size_t bytes = 0;
  for (const HostTensor& tensor : tensors) {
    bytes += tensor.bytes.size();
    require(tensor.type.bytes() == static_cast<std::int64_t>(tensor.bytes.size()),
            "as many bytes as the type says");
  }
  require(bytes <= input.size(), "the data is part of the file");
  const std::filesystem::path again = scratch() / "again.safetensors";
  write_safetensors(again, tensors);
  SafetensorsMetadata metadata;
  require(equal(read_safetensors(again, &metadata), tensors), "what is written again is the same");
}

void require_verdicts(const std::vector<TensorVerdict>& verdicts) {
  for (const TensorVerdict& verdict : verdicts) {
    require(std::isfinite(verdict.ratio) && verdict.ratio >= 0, "a ratio is a number");
    require(std::isfinite(verdict.max_error) && std::isfinite(verdict.max_bound), "an error is a number");
  }
}

const Registration here("tensors", [](Input input) {
  static const Program program = tiny_program(8);
  static const Precision precision = precision_of(PrecisionKind::fp32);
  const std::filesystem::path& file = file_with(input);
  read_file_of_tensors(file, input);
  const TensorFile tensors = TensorFile::read_foreign(file, limit);
  for (const std::string& name : tensors.names()) {
    const HostTensor& tensor = *tensors.find(name);
    if (tensor.type.dtype == DType::f32 && tensors.refusal(name, tensor.type).empty())
      for (const double value : tensors.required(name))
        require(std::isfinite(value), "what is taken is finite");
  }
  require_verdicts(judge_audit(
      tensors, {.next_loss = Replayed{"continuation/loss", 0, 0.5, 1e-3}, .own_loader = true}, precision));
  require_verdicts(judge_draws(tensors, program, Task::train));
  require_verdicts(judge_continuation(tensors, program, precision, {}));
});

}  // namespace
}  // namespace assay::fuzz::of_tensors
