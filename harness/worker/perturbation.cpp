#include "harness/worker/perturbation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/core/numerics.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

bool corrects_bias(const OptimizerSpec& optimizer) {
  return optimizer.kind == "adam" || optimizer.kind == "adamw" || optimizer.kind == "lazy_adam";
}

// The most unit roundoffs that a gate of an LSTM is moved by: fast approximations of the exponential are off by some.
constexpr double gate_roundings = 4;

// The most that a nudge is, in largest errors of its channel. Of two values whose errors differ by one of these, one
// nudge in four or more changes the order.
constexpr double nudge_factor = 2;

}  // namespace

Perturbation::Perturbation(const ExamFeeds& feeds, const Program& program, Task task,
                           const OracleOptions& oracle, int run, double roundings)
    : random_(oracle.seed, fmt::format("perturbation/{}", run)),
      roundings_(roundings),
      feeds_(feeds),
      order_(static_cast<std::size_t>(feeds.batches.distinct)) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  // The samples of a slice stay together: batch norm normalises them by their own statistics.
  const std::size_t slice = order_.size() / static_cast<std::size_t>(oracle.slices);
  for (std::size_t first = 0; first < order_.size(); first += slice)
    random_.shuffle(std::span(order_).subspan(first, slice));

  const Precision& precision = oracle.emulated;
  const double storage = precision.tf32 ? 0x1p-11 : unit_roundoff(precision.storage);
  const double master = unit_roundoff(precision.master);
  for (HostTensor& tensor : feeds_.state) {
    const ValueId id = program.inference.find(tensor.name);
    if (id == none) continue;  // a moment: its initial value would dominate the difference
    const bool parameter = program.inference.value(id).role == Role::parameter;
    move(tensor.as<float>(), parameter ? storage : master);
    if (is_operand(program.inference, id, "lstm", 3)) move_gates(tensor.as<float>(), master);
  }
  if (program.optimizer && corrects_bias(*program.optimizer)) move_rates(master);
  for (std::int64_t batch = 0; batch < feeds.batches.count(); ++batch) {
    permute(feeds.inputs, feeds_.inputs, batch);
    permute(feeds.labels, feeds_.labels, batch);
  }
  for (std::size_t m = 0; m < feeds_.masks.size(); ++m) permute(feeds.masks[m], feeds_.masks[m], 0);
  for (const std::span<float> values : real_inputs(program, task, feeds_.inputs)) move(values, storage);
}

void Perturbation::nudge(const std::vector<HostTensor>& reach) {
  for (const HostTensor& tensor : reach) {
    const std::span<float> nudges =
        std::ranges::find(feeds_.state, tensor.name, &HostTensor::name)->as<float>();
    const std::span<const float> most = tensor.as<float>();
    for (std::size_t i = 0; i < nudges.size(); ++i)
      nudges[i] = static_cast<float>(std::copysign(nudge_factor, roundings_) * random_.uniform(-1, 1) *
                                     static_cast<double>(most[i]));
  }
}

std::vector<double> Perturbation::ordered(const std::vector<double>& rows, std::int64_t batches) const {
  std::vector<double> result(rows.size());
  const std::size_t row = rows.size() / (order_.size() * static_cast<std::size_t>(batches));
  for (std::size_t first = 0; first < rows.size(); first += row * order_.size()) {
    for (std::size_t r = 0; r < order_.size(); ++r) {
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(first + r * row), row,
                  result.begin() + static_cast<std::ptrdiff_t>(first + order_[r] * row));
    }
  }
  return result;
}

// Reorders the samples of a batch; a sample keeps its mask.
void Perturbation::permute(const HostTensor& from, HostTensor& to, std::int64_t batch) const {
  const std::size_t row = from.bytes.size() / static_cast<std::size_t>(from.type.shape.front());
  const std::size_t first = static_cast<std::size_t>(batch) * order_.size();
  for (std::size_t r = 0; r < order_.size(); ++r) {
    std::copy_n(from.bytes.begin() + static_cast<std::ptrdiff_t>((first + order_[r]) * row), row,
                to.bytes.begin() + static_cast<std::ptrdiff_t>((first + r) * row));
  }
}

// Changes all by one factor: a beta2 of 0.999 in f32 has an error of 1.3e-8. After t steps the root of 1 -
// beta2^t, and with it every update, has an error of 3e-6 to 7e-6.
void Perturbation::move_rates(double roundoff) {
  const double factor = 1 + std::copysign(64.0, roundings_) * random_.uniform(-1, 1) * roundoff;
  const std::span<double> rows = feeds_.schedule.as<double>();
  for (std::size_t row = 0; row < rows.size(); row += 2) rows[row] *= factor;
}

// Moves the input, forget and output gates of an LSTM by up to some roundings of the gate, all in one direction:
// the error of an approximated sigmoid is the same in each step, and the cell adds it up over the sequence. The
// slope of a gate s is s (1 - s), so a share of s is moved by that share over 1 - s = 1 / (1 + exp(bias)).
void Perturbation::move_gates(std::span<float> bias, double roundoff) {
  const std::size_t units = bias.size() / 4;
  const double direction =
      std::copysign(gate_roundings / perturbed_roundings * roundings_, random_.uniform(-1, 1));
  for (const std::size_t gate : {0, 1, 3})  // 2 is the candidate
    for (float& value : bias.subspan(gate * units, units))
      value += static_cast<float>(direction * random_.uniform() * roundoff * (1 + std::exp(value)));
}

void Perturbation::move(std::span<float> values, double roundoff) {
  for (float& value : values) {
    value = static_cast<float>(value * (1 + roundings_ * random_.uniform(-1, 1) * roundoff));
  }
}

}  // namespace assay
