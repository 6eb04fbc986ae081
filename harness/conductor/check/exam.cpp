// write_exam: a state, batches and a schedule that make mistakes visible.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "harness/conductor/check/exam.hpp"
#include "harness/conductor/check/exam_contents.hpp"
#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/data/initial_values.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/exam/subject.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// Whether the run is continued: not if it draws random numbers or if three copies of the state are too large.
bool is_continued(const Program& program, const ExamPlan& plan, const std::vector<HostTensor>& state) {
  constexpr std::size_t max_bytes = std::size_t{256} << 20;
  std::size_t bytes = 0;
  for (const HostTensor& tensor : state) bytes += tensor.bytes.size();
  return program.trains(plan.task) && bytes <= max_bytes && !program.draws_masks(plan.task);
}

}  // namespace

std::int64_t distinct_samples(std::int64_t batch, std::int64_t asked) {
  if (batch < 1 || asked < 1) {
    throw std::invalid_argument(
        fmt::format("[check] got batch {} with {} distinct samples: both must be positive", batch, asked));
  }
  std::int64_t below = std::min(batch, asked);
  while (batch % below != 0) --below;
  if (2 * below >= std::min(asked, batch)) return below;
  std::int64_t above = asked;
  while (batch % above != 0) ++above;
  return above;
}

std::int64_t distinct_of(const Program& program, const ExamPlan& plan) {
  return plan.ranks * distinct_samples(batch_of(program) / plan.ranks, plan.distinct);
}

std::vector<std::int64_t> exam_slots(std::int64_t resident, std::uint64_t turn, std::uint64_t seed) {
  constexpr std::int64_t most = 8;
  if (resident <= 0) return {0, 0, 0};
  // The same in all exams of a cell.
  std::vector<std::int64_t> below_half(static_cast<std::size_t>(resident / 2)), all;
  std::iota(below_half.begin(), below_half.end(), std::int64_t{0});
  Philox(static_cast<std::uint64_t>(resident), "exam/turns").shuffle(std::span(below_half));
  for (const std::int64_t slot : below_half) {
    all.push_back(slot);
    all.push_back(slot + resident / 2);
  }
  if (resident % 2 != 0) all.push_back(resident - 1);
  const std::int64_t begin = static_cast<std::int64_t>(turn % static_cast<std::uint64_t>(resident)) * most;
  std::vector<std::int64_t> slots;
  for (std::int64_t i = 0; i < std::min(most, resident); ++i)
    slots.push_back(all[static_cast<std::size_t>((begin + i) % resident)]);
  Philox(seed, "exam/slots").shuffle(std::span(slots));
  return slots;
}

void write_exam(const fs::path& folder, const Program& program, const ExamPlan& plan) {
  constexpr std::int64_t min_steps = 3;
  const Graph& graph = program.graph(plan.task);
  const bool trains = program.trains(plan.task);
  const std::uint64_t seed = plan.seed;
  ExamBatches batches{.batch = batch_of(program), .slots = exam_slots(plan.resident, plan.turn, seed)};
  if (program.is_op()) batches.slots.resize(std::min<std::size_t>(2, batches.slots.size()));
  if (plan.of_run) batches.slots.resize(std::min<std::size_t>(program.is_op() ? 1 : 2, batches.slots.size()));
  batches.distinct = distinct_of(program, plan);
  batches.row_of = shuffled_rows_of_ranks(batches.batch, batches.distinct, plan.ranks, seed);
  const std::int64_t samples = batches.count() * batches.distinct;

  fs::create_directories(folder);
  if (packs_inputs(program)) {
    const std::int64_t batch = batch_of(program);
    HostTensor drawn = HostTensor::zeros("inputs", {DType::f32, {samples, input_elements(graph) / batch}});
    std::ranges::copy(draw_operands(graph, samples, seed, "exam", batch), drawn.as<float>().begin());
    write_npy(folder / "inputs.npy", drawn);
  } else {
    write_npy(folder / "inputs.npy", inputs_of(graph, batches, seed));
  }
  std::vector<HostTensor> state;
  if (trains) {
    const Shape& labels = graph.value(graph.find("labels")).type.shape;
    const std::int64_t classes = graph.value(graph.output("logits")).type.shape.back();
    const HostTensor drawn = labels.size() > 1 ? labels_of_positions(labels, classes, samples, seed)
                                               : labels_of(classes, batches, seed);
    write_npy(folder / "labels.npy", drawn);
    state = state_of(program, plan, absent_class(drawn, batches.count(), classes));
    const std::vector<HostTensor> extreme = extreme_of(program, state, drawn.as<std::int32_t>()[0]);
    if (!extreme.empty()) write_safetensors(folder / "extreme.safetensors", extreme);
  } else {
    state = state_of(program, plan, std::nullopt);
    write_npy(folder / "labels.npy", HostTensor::zeros("labels", {DType::i32, {samples}}));
  }
  write_safetensors(folder / "state.safetensors", state);
  write_npy(folder / "schedule.npy",
            schedule_of(program, std::max(min_steps, batches.count()), plan.turn, seed));
  const std::vector<HostTensor> masks = masks_of(graph, batches, seed);
  if (!masks.empty()) write_safetensors(folder / "masks.safetensors", masks);
  write_atomically(folder / "exam.json", encode(subject_of(program, plan.task)).dump() + "\n", false);
  write_atomically(folder / "batches.json", encode(batches).dump() + "\n", false);
  if (is_continued(program, plan, state))
    write_atomically(folder / "continuation.json", encode(ExamContinuation{}).dump() + "\n", false);
}

void take_moved_biases(const fs::path& folder, const fs::path& answers) {
  constexpr std::string_view prefix = "state/";
  const fs::path state = folder / "state.safetensors";
  std::vector<HostTensor> tensors = read_safetensors(state);
  bool any = false;
  for (const HostTensor& moved : read_safetensors(answers)) {
    if (!moved.name.starts_with(prefix)) continue;
    const auto found = std::ranges::find(tensors, moved.name.substr(prefix.size()), &HostTensor::name);
    if (found == tensors.end() || found->type != moved.type)
      throw CellError(fmt::format("[exam] the oracle moved {}, which is not in the exam", moved.name));
    found->bytes = moved.bytes;
    any = true;
  }
  if (any) write_safetensors(state, tensors);
}

}  // namespace assay
