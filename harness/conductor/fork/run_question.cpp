#include "harness/conductor/fork/run_question.hpp"

#include <algorithm>
#include <numeric>
#include <set>
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
constexpr std::size_t most_slots = 16;
// Operands of a single op may be large, and their results too; so may be the work of the oracle.
constexpr std::size_t most_sets = 2;
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

// One of each of two halves of the rows: a step that computes half of them shows.
std::vector<std::int64_t> drawn_rows(std::int64_t batch, Philox random) {
  const std::int64_t count = std::min(rows_of_a_batch, batch);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = i * batch / count, end = (i + 1) * batch / count;
    rows.push_back(first + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(end - first))));
  }
  return rows;
}

// Slots, ascending: these, and others up to a number of `at_most`.
std::vector<std::int64_t> drawn_slots(std::int64_t count, std::size_t at_most, Philox random,
                                      std::set<std::int64_t> chosen) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  random.shuffle(std::span(all));
  for (const std::int64_t slot : all)
    if (chosen.size() < at_most) chosen.insert(slot);
  return {chosen.begin(), chosen.end()};
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

RunResults question_of_run(const Cell& cell, const Fork& fork, const std::filesystem::path& cell_folder,
                           const std::filesystem::path& exam, std::uint64_t seed) {
  const std::int64_t batch = batch_of(*cell.program), last_step = all_steps_of(fork) - 1;
  const bool resident = cell.program->is_op() || cell.axes.loader == LoaderKind::resident;
  RunResults asked{.exam = exam, .rows = drawn_rows(batch, Philox(seed, "run/rows"))};
  std::vector<std::int64_t> steps{last_step};  // of the run, whose results are judged
  if (!fork.readings.empty()) steps.push_back(fork.readings.back().step);
  std::vector<std::int64_t> batches = steps;
  if (resident) {
    const std::int64_t slots = cell.measure.resident_batches;
    for (std::int64_t& step : steps) step %= slots;
    batches = asked.slots = drawn_slots(slots, is_large(*cell.program, batch) ? most_sets : most_slots,
                                        Philox(seed, "run/slots"), {steps.begin(), steps.end()});
  }
  const auto batch_of_step = [&](std::int64_t step) {
    return static_cast<std::size_t>(std::ranges::find(batches, step) - batches.begin());
  };
  asked.last = batch_of_step(steps.front());
  if (!fork.readings.empty()) asked.read = {batch_of_step(steps.back()), fork.readings.back().token};
  const RunRows rows(cell_folder, batch);
  HostTensor inputs = HostTensor::zeros("inputs", rows.type(std::ssize(batches) * std::ssize(asked.rows)));
  const std::size_t sample = inputs.bytes.size() / static_cast<std::size_t>(inputs.type.shape.front());
  std::byte* to = inputs.bytes.data();
  for (const std::int64_t one : batches) {
    for (const std::int64_t row : asked.rows) {
      if (resident)
        rows.read_resident(one, row, to);
      else
        rows.read_step(one, row, to);
      to += sample;
    }
  }
  write_run_exam(asked, inputs, cell_folder / "parameters.safetensors");
  return asked;
}

}  // namespace assay
