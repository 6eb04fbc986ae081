// NumPy's arrays: as labels, as a tensor in memory, as a mapped file and as the plan of an epoch.
#include <algorithm>
#include <cstdlib>

#include "harness/batch/plan_file.hpp"
#include "harness/conductor/data/sample_files.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_npy {
namespace {

void read_labels(Input input) {
  const NpyLabels read = read_npy_labels(input, "fuzz");
  require(read.labels.size() <= input.size(), "a label has a byte at least");
  require(read.positions == 0 || read.labels.size() % static_cast<std::size_t>(read.positions) == 0,
          "each sample has all its labels");
}

void read_tensor(const std::filesystem::path& file, Input input) {
  const HostTensor tensor = read_npy(file);
  require(tensor.bytes.size() <= input.size(), "the data is part of the file");
  require(tensor.type.bytes() == static_cast<std::int64_t>(tensor.bytes.size()),
          "as many bytes as the type says");
  const std::filesystem::path again = scratch() / "again.npy";
  write_npy(again, tensor);
  const HostTensor same = read_npy(again);
  require(same.type == tensor.type && same.bytes == tensor.bytes, "what is written again is the same");
  const MappedNpy mapped(file);
  require(mapped.type() == tensor.type && std::ranges::equal(mapped.bytes(), tensor.bytes),
          "mapped as it is read");
}

void read_plan(const std::filesystem::path& file) {
  constexpr std::int64_t samples = 23;
  const MappedPlan plan(file);
  plan.require_valid(samples, {2, 4, 3});
  for (const PlanRow& row : plan.rows()) {
    require(row.sample >= 0 && row.sample < samples, "a sample of the set");
    require(std::abs(row.dx) < 3 && std::abs(row.dy) < 4, "a crop leaves a part of the image");
  }
}

template <typename Read>
void try_to(Read read) {
  try {
    read();
  } catch (const Error&) {
  }
}

const Registration here("npy", [](Input input) {
  const std::filesystem::path& file = file_with(input);
  try_to([&] { read_labels(input); });
  try_to([&] { read_tensor(file, input); });
  read_plan(file);
});

}  // namespace
}  // namespace assay::fuzz::of_npy
