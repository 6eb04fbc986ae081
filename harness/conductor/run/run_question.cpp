#include "harness/conductor/run/run_question.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "harness/batch/manifest.hpp"
#include "harness/batch/plan_file.hpp"
#include "harness/batch/source.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/core/io/philox.hpp"

namespace assay {
namespace {

constexpr std::int64_t rows_of_a_batch = 2;
// A network's batches: with as many slots as usual, cells of one round have the same question, and share the answer.
constexpr std::int64_t most_slots = 16;
// Operands of a single op may be large, and their results too; so may be the work of the oracle.
constexpr std::int64_t most_sets = 2;
// Of one row: the oracle needs a tenth of a second for as much, and computes each row several times.
constexpr double many_flops = 1e9;

std::int64_t all_steps_of(const Fork& fork) {
  std::int64_t steps = 0;
  for (const Block& block : fork.blocks) steps += block.steps;
  return steps;
}

bool is_large(const Program& program, std::int64_t batch) {
  double flops = 0;
  for (const Node& node : program.inference.nodes()) flops += cost(program.inference, node).flops;
  return program.is_op() || flops > many_flops * static_cast<double>(batch);
}

// Some of 0 to count - 1, ascending.
std::vector<std::int64_t> drawn(std::int64_t count, std::int64_t at_most, Philox random) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  random.shuffle(std::span(all));
  all.resize(static_cast<std::size_t>(std::min(count, at_most)));
  std::ranges::sort(all);
  return all;
}

// The samples that the run read, as the batch library reads them.
class RunRows {
 public:
  RunRows(const std::filesystem::path& cell_folder, std::int64_t batch)
      : opener_(read_manifest(cell_folder)), source_(opener_.open("train")), batch_(batch) {
    for (int epoch = 1; epoch == 1 || std::filesystem::exists(plan_path(cell_folder, epoch)); ++epoch)
      plans_.emplace_back(plan_path(cell_folder, epoch));
  }

  TensorType type(std::int64_t samples) const {
    const Manifest& manifest = opener_.manifest();
    Shape shape = manifest.sample_shape;
    shape.insert(shape.begin(), samples);
    return {manifest.tokens() ? DType::i32 : DType::f32, shape};
  }
  // Row `row` of the batch that stays in a slot.
  void read_resident(std::int64_t slot, std::int64_t row, void* inputs) const {
    const std::span<const PlanRow> rows = plans_.front().rows();
    source_->read(rows[static_cast<std::size_t>(slot * batch_ + row) % rows.size()], inputs);
  }
  // Row `row` of the batch of a step that is given one.
  void read_step(std::int64_t step, std::int64_t row, void* inputs) const {
    const std::int64_t per_plan = static_cast<std::int64_t>(plans_.front().rows().size()) / batch_;
    const std::span<const PlanRow> rows =
        plans_[static_cast<std::size_t>(step / per_plan) % plans_.size()].rows();
    source_->read(rows[static_cast<std::size_t>(step % per_plan * batch_ + row)], inputs);
  }

 private:
  SourceOpener opener_;
  std::unique_ptr<Source> source_;
  std::vector<MappedPlan> plans_;
  std::int64_t batch_;
};

}  // namespace

RunResults question_of_run(const Cell& cell, const Program& program, const Fork& fork,
                           const std::filesystem::path& cell_folder, const std::filesystem::path& exam,
                           std::uint64_t seed) {
  const std::int64_t batch = batch_of(program), last_step = all_steps_of(fork) - 1;
  const bool resident = program.is_op() || cell.axes.loader == LoaderKind::resident;
  RunResults asked{.exam = exam, .rows = drawn(batch, rows_of_a_batch, Philox(seed, "run/rows"))};
  if (resident) {
    const std::int64_t slots = cell.measure.resident_batches, last = last_step % slots;
    asked.slots = drawn(slots, is_large(program, batch) ? most_sets : most_slots, Philox(seed, "run/slots"));
    if (std::ranges::find(asked.slots, last) == asked.slots.end()) {
      asked.slots.back() = last;
      std::ranges::sort(asked.slots);
    }
    asked.last = static_cast<std::size_t>(std::ranges::find(asked.slots, last) - asked.slots.begin());
  }
  const RunRows rows(cell_folder, batch);
  const auto batches = static_cast<std::int64_t>(std::max<std::size_t>(1, asked.slots.size()));
  HostTensor inputs =
      HostTensor::zeros("inputs", rows.type(batches * static_cast<std::int64_t>(asked.rows.size())));
  const std::size_t sample = inputs.bytes.size() / static_cast<std::size_t>(inputs.type.shape.front());
  std::byte* to = inputs.bytes.data();
  for (std::int64_t b = 0; b < batches; ++b) {
    for (const std::int64_t row : asked.rows) {
      if (resident)
        rows.read_resident(asked.slots[static_cast<std::size_t>(b)], row, to);
      else
        rows.read_step(last_step, row, to);
      to += sample;
    }
  }
  write_run_exam(asked, program, inputs, cell_folder / "parameters.safetensors");
  return asked;
}

}  // namespace assay
