// What the mutants of onednn have in common; tests/mutants/mutant.py has the same for the adapters in Python.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backends/onednn/backend.hpp"

namespace assay::mutants {

using State = std::vector<HostTensor>;

// Bytes and rows of a batch of the program. A single op has one row: all its operands.
struct Batches {
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
};

inline const TensorType& input_type(const Graph& graph) {
  const std::vector<ValueId> inputs = graph.with_role(Role::input);
  if (inputs.empty()) throw std::logic_error("[wrong-worker] the program has no inputs");
  return graph.value(inputs.front()).type;
}

inline Batches batches_of(const Program& program, Task task) {
  if (program.is_op())
    return {1, static_cast<std::int64_t>(sizeof(float)) * input_elements(program.graph(task))};
  const TensorType& type = input_type(program.training);
  return {type.shape.at(0), type.bytes() / type.shape.at(0)};
}

inline State all_kept_of(const Program& program) {
  State masks;
  for (const ValueId id : program.training.with_role(Role::mask)) {
    const Value& value = program.training.value(id);
    masks.push_back(HostTensor::zeros(value.name, value.type));
    std::ranges::fill(masks.back().as<std::uint8_t>(), std::uint8_t{1});
  }
  return masks;
}

inline bool is_moment(std::string_view name) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{".m", ".v", ".momentum", ".square"},
                             [&](auto end) { return name.ends_with(end); });
}

inline std::span<float> elements(State& state, const std::string& name) {
  return std::ranges::find(state, name, &HostTensor::name)->as<float>();
}

inline std::span<const float> elements(const State& state, const std::string& name) {
  return std::ranges::find(state, name, &HostTensor::name)->as<float>();
}

// Rounds to nearest with that many bits of mantissa: 7 are bf16, 10 are tf32.
inline float rounded(float x, int bits) {
  const int dropped = 23 - bits;
  const auto of_x = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t up = of_x + ((1U << (dropped - 1)) - 1) + ((of_x >> dropped) & 1U);
  return std::bit_cast<float>(up & (0xFFFFFFFFU << dropped));
}

// The bytes of a batch's inputs, and its labels.
using Bytes = std::vector<std::byte>;
using Labels = std::vector<std::int32_t>;

inline std::span<float> floats(Bytes& inputs) {
  return {reinterpret_cast<float*>(inputs.data()), inputs.size() / sizeof(float)};
}

inline void repeat_first_half(Bytes& inputs, Labels& labels) {
  const std::size_t rows = labels.size(), half = rows / 2, bytes = inputs.size() / rows * half;
  std::copy_n(inputs.begin(), bytes, inputs.begin() + static_cast<std::ptrdiff_t>(bytes));
  std::copy_n(labels.begin(), half, labels.begin() + static_cast<std::ptrdiff_t>(half));
}

inline void round_inputs(Bytes& inputs) {
  for (float& x : floats(inputs)) x = rounded(x, 7);
}

// Passes every call on; mistakes override some.
class Wrong : public Executable {
 public:
  // The program that is compiled in place of the right one.
  virtual Program changed(const Program& given) const { return given; }

  void set_state(std::span<const HostTensor> tensors) override { right->set_state(tensors); }
  State state() override { return right->state(); }
  void stage(std::int64_t slot, const HostBatch& batch) override { right->stage(slot, batch); }
  void step(std::int64_t slot, double rate, std::int64_t number) override { right->step(slot, rate, number); }
  void synchronize() override { right->synchronize(); }
  double loss() override { return right->loss(); }
  State results() override { return right->results(); }
  void evaluate(const HostBatch& batch, float* logits) override { right->evaluate(batch, logits); }
  void supply_masks(std::span<const HostTensor> masks) override { right->supply_masks(masks); }
  State masks() override { return right->masks(); }
  std::map<std::string, std::int64_t> memory() const override { return right->memory(); }
  std::vector<OperatorTime> operator_times() const override { return right->operator_times(); }

  std::unique_ptr<Executable> right;
  std::optional<Program> program{};  // the changed one
  Task task = Task::train;
  Batches batches{};
  State all_kept{};  // masks

 protected:
  using Change = std::function<void(Bytes&, Labels&)>;

  // A batch whose contents `change` has altered; it owns them for the length of one stage().
  void stage_changed(std::int64_t slot, const HostBatch& batch, const Change& change) {
    const auto rows = static_cast<std::size_t>(batches.rows);
    Bytes inputs(rows * static_cast<std::size_t>(batches.row_bytes));
    std::memcpy(inputs.data(), batch.inputs, inputs.size());
    Labels labels(rows);
    if (batch.labels) std::copy_n(batch.labels, rows, labels.begin());
    change(inputs, labels);
    right->stage(slot, {inputs.data(), batch.labels ? labels.data() : nullptr});
  }

  void zero_half_of_the_op(Bytes& inputs) const {
    const auto all = static_cast<std::size_t>(input_type(program->graph(task)).elements());
    std::ranges::fill(floats(inputs).subspan(all / 2, all - all / 2), 0.0f);
  }

  std::int64_t steps_ = 0;
};

// Its count of steps begins again when a caller waits for it.
class Undrained : public Wrong {
  void synchronize() override {
    waiting_ = 0;
    right->synchronize();
  }

 protected:
  std::int64_t waiting_ = 0;
};

// Counts the steps since a state was set.
class SinceTheState : public Wrong {
 public:
  void set_state(std::span<const HostTensor> tensors) override {
    since_ = 0;
    right->set_state(tensors);
  }

 protected:
  std::int64_t since_ = 0;
};

// Each slot also has another batch, which a step reads if other_batch() says so.
class TwoBatches : public SinceTheState {
 public:
  void stage(std::int64_t slot, const HostBatch& batch) override {
    right->stage(2 * slot, batch);
    stage_changed(2 * slot + 1, batch, [this](Bytes& inputs, Labels& labels) { alter(inputs, labels); });
  }
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    ++since_;
    right->step(2 * slot + (other_batch() ? 1 : 0), rate, number);
  }

 protected:
  virtual void alter(Bytes& inputs, Labels& labels) = 0;
  // From the fourth step on.
  virtual bool other_batch() const { return since_ > 3; }
};

// After a step, tensors of the state are replaced.
class Rewritten : public SinceTheState {
 public:
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    ++since_, ++steps_;
    rate_ = rate, number_ = number;
    before_ = right->state();
    right->step(slot, rate, number);
    State after = right->state();
    rewrite(after);
    right->set_state(after);
  }

 protected:
  virtual void rewrite(State& after) = 0;

  const OptimizerSpec& rule() const { return program->optimizer; }

  std::vector<std::string> names(Role role) const {
    std::vector<std::string> found;
    for (const ValueId id : program->training.with_role(role))
      found.push_back(program->training.value(id).name);
    return found;
  }
  std::vector<std::string> parameters() const { return names(Role::parameter); }
  bool is_bias(const std::string& name) const {
    return program->training.value(program->training.find(name)).type.shape.size() == 1;
  }

  // The gradient of a parameter in the last step of Adam.
  std::vector<double> gradient(const std::string& name, const State& after) const {
    const std::span<const float> old = elements(before_, name + ".m"), m = elements(after, name + ".m");
    std::vector<double> found(m.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      found[i] = (m[i] - rule().beta1 * old[i]) / (1 - rule().beta1);
    return found;
  }

  // Sets elements of a parameter and of its moments to those after a step of Adam with the gradient that
  // gradient_of() returns for the number of an element; those without one stay as they are.
  template <typename F>
  void adam(State& after, const std::string& name, F gradient_of) const {
    const std::span<const float> old_p = elements(before_, name), old_m = elements(before_, name + ".m"),
                                 old_v = elements(before_, name + ".v");
    const std::span<float> p = elements(after, name), m = elements(after, name + ".m"),
                           v = elements(after, name + ".v");
    for (std::size_t i = 0; i < p.size(); ++i) {
      const std::optional<double> g = gradient_of(i);
      if (!g) continue;
      const double new_m = rule().beta1 * old_m[i] + (1 - rule().beta1) * *g;
      const double new_v = rule().beta2 * old_v[i] + (1 - rule().beta2) * *g * *g;
      m[i] = static_cast<float>(new_m);
      v[i] = static_cast<float>(new_v);
      p[i] = static_cast<float>(old_p[i] - moved(new_m, new_v));
    }
  }

  // What Adam subtracts from a parameter.
  double moved(double m, double v) const {
    const auto step = static_cast<double>(number_);
    const double root = std::sqrt(v / (1 - std::pow(rule().beta2, step))) + rule().epsilon;
    return rate_ * m / (1 - std::pow(rule().beta1, step)) / root;
  }

  State before_;
  double rate_ = 0;
  std::int64_t number_ = 0;
};

}  // namespace assay::mutants
