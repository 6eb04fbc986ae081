// The worker of onednn with a mistake or a cheat, named by its first argument: the counterparts of
// tests/mutants/wrong.py, under the same names.
//
//     wrong-worker NAME CELL_FOLDER     NAME "-": the unchanged backend
//     wrong-worker --list               the names, one per line; those of cheats are followed by " cheats"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>

#include "backends/onednn/backend.hpp"

namespace assay {
namespace {

// Bytes and rows of a batch of the program.
struct Batches {
  std::int64_t rows;
  std::int64_t row_bytes;
};

Batches batches_of(const Program& program) {
  const Graph& graph = program.training;
  for (const Value& value : graph.values()) {
    if (value.role == Role::input)
      return {value.type.shape.at(0), value.type.bytes() / value.type.shape.at(0)};
  }
  throw std::logic_error("[wrong-worker] the program has no inputs");
}

std::vector<HostTensor> all_kept_of(const Program& program) {
  std::vector<HostTensor> masks;
  for (const ValueId id : program.training.with_role(Role::mask)) {
    const Value& value = program.training.value(id);
    masks.push_back(HostTensor::zeros(value.name, value.type));
    std::ranges::fill(masks.back().as<std::uint8_t>(), std::uint8_t{1});
  }
  return masks;
}

// Passes every call on; mistakes override some.
class Wrong : public Executable {
 public:
  void set_state(std::span<const HostTensor> tensors) override { right->set_state(tensors); }
  std::vector<HostTensor> state() override { return right->state(); }
  void stage(std::int64_t slot, const HostBatch& batch) override { right->stage(slot, batch); }
  void step(std::int64_t slot, double rate, std::int64_t number) override { right->step(slot, rate, number); }
  void synchronize() override { right->synchronize(); }
  double loss() override { return right->loss(); }
  std::vector<HostTensor> results() override { return right->results(); }
  void evaluate(const HostBatch& batch, float* logits) override { right->evaluate(batch, logits); }
  void supply_masks(std::span<const HostTensor> masks) override { right->supply_masks(masks); }
  std::vector<HostTensor> masks() override { return right->masks(); }
  std::map<std::string, std::int64_t> memory() const override { return right->memory(); }
  std::vector<OperatorTime> operator_times() const override { return right->operator_times(); }

  std::unique_ptr<Executable> right;
  Batches batches{};
  std::vector<HostTensor> all_kept{};  // masks

 protected:
  // A batch whose contents `change` has altered; it owns them for the length of one stage().
  void stage_changed(std::int64_t slot, const HostBatch& batch,
                     const std::function<void(std::vector<std::byte>&, std::vector<std::int32_t>&)>& change) {
    const auto rows = static_cast<std::size_t>(batches.rows);
    std::vector<std::byte> inputs(rows * static_cast<std::size_t>(batches.row_bytes));
    std::memcpy(inputs.data(), batch.inputs, inputs.size());
    std::vector<std::int32_t> labels(rows);
    if (batch.labels) std::copy_n(batch.labels, rows, labels.begin());
    change(inputs, labels);
    right->stage(slot, {inputs.data(), batch.labels ? labels.data() : nullptr});
  }
  std::int64_t steps_ = 0;
};

class SkipsEveryFourthUpdate : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (++steps_ % 4) right->step(slot, rate, number);
  }
};

class ReadsOneSlotAfterTheThirdStep : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    right->step(++steps_ <= 3 ? slot : 0, rate, number);
  }
};

class KeepsOneSlot : public Wrong {
  void stage(std::int64_t, const HostBatch& batch) override { right->stage(0, batch); }
  void step(std::int64_t, double rate, std::int64_t number) override { right->step(0, rate, number); }
};

class RollsLabelsOfLaterSlots : public Wrong {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    stage_changed(slot, batch, [&](auto&, auto& labels) {
      if (slot) std::ranges::rotate(labels, labels.end() - 1);
    });
  }
};

class StagesOnce : public Wrong {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    if (staged_.insert(slot).second) right->stage(slot, batch);
  }
  std::set<std::int64_t> staged_;
};

class KeepsTheFirstRate : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (!steps_++) first_ = rate;
    right->step(slot, first_, number);
  }
  double first_ = 0;
};

class RaisesTheRateLater : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    right->step(slot, rate * (++steps_ > 3 ? 1.01 : 1), number);
  }
};

class StopsUpdatingAfterTheThirdStep : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    right->step(slot, ++steps_ <= 3 ? rate : 0, number);
  }
};

class StopsCountingAtTen : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    right->step(slot, rate, std::min<std::int64_t>(number, 10));
  }
};

class CountsFromZero : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    right->step(slot, rate, std::max<std::int64_t>(number - 1, 1));
  }
};

class TellsAnEarlierLoss : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (steps_++) earlier_ = right->loss();
    right->step(slot, rate, number);
  }
  double loss() override { return steps_ > 1 ? earlier_ : right->loss(); }
  double earlier_ = 0;
};

class EvaluatesWhatItStartedFrom : public Wrong {
  void set_state(std::span<const HostTensor> tensors) override {
    started_.assign(tensors.begin(), tensors.end());
    right->set_state(tensors);
  }
  void evaluate(const HostBatch& batch, float* logits) override {
    const std::vector<HostTensor> now = right->state();
    right->set_state(started_);
    right->evaluate(batch, logits);
    right->set_state(now);
  }
  std::vector<HostTensor> started_;
};

class ComputesHalfTheBatch : public Wrong {
 protected:
  void stage(std::int64_t slot, const HostBatch& batch) override {
    stage_changed(slot, batch, [](auto& inputs, auto& labels) {
      const std::size_t rows = labels.size(), half = rows / 2, bytes = inputs.size() / rows * half;
      std::copy_n(inputs.begin(), bytes, inputs.begin() + static_cast<std::ptrdiff_t>(bytes));
      std::copy_n(labels.begin(), half, labels.begin() + static_cast<std::ptrdiff_t>(half));
    });
  }
};

class ReversesSamples : public Wrong {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    stage_changed(slot, batch, [](auto& inputs, auto& labels) {
      const auto row = static_cast<std::ptrdiff_t>(inputs.size() / labels.size());
      auto begin = inputs.begin(), end = inputs.end() - row;
      for (; begin < end; begin += row, end -= row) std::swap_ranges(begin, begin + row, end);
    });
  }
};

class LosesTheLastPixel : public Wrong {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    stage_changed(slot, batch, [](auto& inputs, auto& labels) {
      const std::size_t row = inputs.size() / labels.size();
      for (std::size_t end = row; end <= inputs.size(); end += row)
        std::memset(inputs.data() + end - sizeof(float), 0, sizeof(float));
    });
  }
};

class ForgetsMoments : public Wrong {
  void set_state(std::span<const HostTensor> tensors) override {
    std::vector<HostTensor> kept;
    for (const HostTensor& tensor : tensors) {
      const bool moment =
          std::ranges::any_of(std::initializer_list<std::string_view>{".m", ".v", ".momentum", ".square"},
                              [&](auto end) { return tensor.name.ends_with(end); });
      if (!moment) kept.push_back(tensor);
    }
    right->set_state(kept);
  }
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

class LosesAStepThatIsNotWaitedFor : public Undrained {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (++waiting_ % 7) right->step(slot, rate, number);
  }
};

class KeepsEveryElement : public Wrong {
  void supply_masks(std::span<const HostTensor> masks) override {
    told_ = !masks.empty();
    right->supply_masks(told_ ? masks : std::span<const HostTensor>(all_kept));
  }
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (!told_ && !steps_++) right->supply_masks(all_kept);
    right->step(slot, rate, number);
  }
  bool told_ = false;
};

class DrawsOneMask : public Wrong {
  void supply_masks(std::span<const HostTensor> masks) override {
    told_ = !masks.empty();
    right->supply_masks(told_ ? masks : std::span<const HostTensor>(first_));
  }
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    right->step(slot, rate, number);
    if (told_ || !first_.empty()) return;
    first_ = right->masks();
    right->supply_masks(first_);
  }
  bool told_ = false;
  std::vector<HostTensor> first_;
};

class InfersTheFirstSlot : public Wrong {
  void step(std::int64_t, double rate, std::int64_t number) override { right->step(0, rate, number); }
};

class InfersNothing : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (!steps_++) right->step(slot, rate, number);
  }
};

class SkipsWhileTimed : public Wrong {
  void set_state(std::span<const HostTensor> tensors) override {
    serious_ |=
        std::ranges::any_of(tensors, [](const HostTensor& tensor) { return tensor.name.ends_with(".v"); });
    right->set_state(tensors);
  }
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (serious_ || !steps_++) right->step(slot, rate, number);
  }
  bool serious_ = false;
};

class SkipsLongRuns : public Undrained {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (++waiting_ <= 2 || waiting_ % 2) right->step(slot, rate, number);
  }
};

class SkipsAtTheRateOfTheRun : public Undrained {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (first_ == 0) first_ = rate;
    if (++waiting_ == 1 || rate != first_ || waiting_ % 2) right->step(slot, rate, number);
  }
  double first_ = 0;
};

class TellsTheStateItWasGiven : public Wrong {
  void set_state(std::span<const HostTensor> tensors) override {
    given_.assign(tensors.begin(), tensors.end());
    right->set_state(tensors);
  }
  std::vector<HostTensor> state() override {
    std::vector<HostTensor> told = right->state();
    for (HostTensor& tensor : told) {
      const auto given = std::ranges::find(given_, tensor.name, &HostTensor::name);
      if (given != given_.end()) tensor = *given;
    }
    return told;
  }
  std::vector<HostTensor> given_;
};

class SavesWorkByTheRate : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (++steps_; number >= 20 || steps_ % 2) right->step(slot, rate, number);
  }
};

// The worker starts in the cell folder.
class ChangesItsQuestions : public Wrong {
 public:
  ChangesItsQuestions() { std::ofstream("check/batches.json", std::ios::app) << ' '; }  // it stays valid
};

class HalvesTheBatchesOfARun : public ComputesHalfTheBatch {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    const auto elements = static_cast<std::size_t>(batches.row_bytes) / sizeof(float);
    const auto* inputs = static_cast<const float*>(batch.inputs);
    std::set<long> sums;
    for (std::int64_t row = 0; row < batches.rows; ++row, inputs += elements)
      sums.insert(std::lround(100 * std::accumulate(inputs, inputs + elements, 0.0)));
    if (2 * std::ssize(sums) > batches.rows)
      ComputesHalfTheBatch::stage(slot, batch);
    else
      right->stage(slot, batch);
  }
};

class InfersEachBatchOnce : public Wrong {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    fresh_.insert(slot);
    right->stage(slot, batch);
  }
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (fresh_.erase(slot)) right->step(slot, rate, number);
  }
  std::set<std::int64_t> fresh_;
};

struct Named {
  std::string_view name;
  bool cheats;
  std::unique_ptr<Wrong> (*make)();
};

template <typename Kind>
std::unique_ptr<Wrong> made() {
  return std::make_unique<Kind>();
}

const Named table[] = {
    {"-", false, made<Wrong>},
    {"SkipsEveryFourthUpdate", false, made<SkipsEveryFourthUpdate>},
    {"ReadsOneSlotAfterTheThirdStep", false, made<ReadsOneSlotAfterTheThirdStep>},
    {"KeepsOneSlot", false, made<KeepsOneSlot>},
    {"RollsLabelsOfLaterSlots", false, made<RollsLabelsOfLaterSlots>},
    {"StagesOnce", false, made<StagesOnce>},
    {"KeepsTheFirstRate", false, made<KeepsTheFirstRate>},
    {"RaisesTheRateLater", false, made<RaisesTheRateLater>},
    {"StopsUpdatingAfterTheThirdStep", false, made<StopsUpdatingAfterTheThirdStep>},
    {"StopsCountingAtTen", false, made<StopsCountingAtTen>},
    {"CountsFromZero", false, made<CountsFromZero>},
    {"TellsAnEarlierLoss", false, made<TellsAnEarlierLoss>},
    {"EvaluatesWhatItStartedFrom", false, made<EvaluatesWhatItStartedFrom>},
    {"ComputesHalfTheBatch", false, made<ComputesHalfTheBatch>},
    {"ReversesSamples", false, made<ReversesSamples>},
    {"LosesTheLastPixel", false, made<LosesTheLastPixel>},
    {"ForgetsMoments", false, made<ForgetsMoments>},
    {"LosesAStepThatIsNotWaitedFor", false, made<LosesAStepThatIsNotWaitedFor>},
    {"KeepsEveryElement", false, made<KeepsEveryElement>},
    {"DrawsOneMask", false, made<DrawsOneMask>},
    {"InfersTheFirstSlot", false, made<InfersTheFirstSlot>},
    {"InfersNothing", true, made<InfersNothing>},
    {"InfersHalfTheBatch", false, made<ComputesHalfTheBatch>},
    {"SkipsWhileTimed", true, made<SkipsWhileTimed>},
    {"SkipsLongRuns", true, made<SkipsLongRuns>},
    {"SkipsAtTheRateOfTheRun", true, made<SkipsAtTheRateOfTheRun>},
    {"TellsTheStateItWasGiven", true, made<TellsTheStateItWasGiven>},
    {"SavesWorkByTheRate", true, made<SavesWorkByTheRate>},
    {"ChangesItsQuestions", true, made<ChangesItsQuestions>},
    {"HalvesTheBatchesOfARun", true, made<HalvesTheBatchesOfARun>},
    {"InfersEachBatchOnce", true, made<InfersEachBatchOnce>},
};

class WrongBackend final : public Backend {
 public:
  explicit WrongBackend(const Named& named) : named_(named) {}
  BackendInfo info() const override { return right_.info(); }
  std::string unsupported(const Program& program, const CompileOptions& options) const override {
    return right_.unsupported(program, options);
  }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    std::unique_ptr<Wrong> wrong = named_.make();
    wrong->batches = batches_of(program);
    wrong->all_kept = all_kept_of(program);
    wrong->right = right_.compile(program, options);
    return wrong;
  }

 private:
  const Named& named_;
  onednn::OnednnBackend right_;
};

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  using assay::table;
  if (argc == 2 && std::string_view(argv[1]) == "--list") {
    for (const assay::Named& named : table)
      if (named.name != "-") std::printf("%s%s\n", named.name.data(), named.cheats ? " cheats" : "");
    return 0;
  }
  const auto* named =
      argc < 3 ? std::end(table) : std::ranges::find(table, std::string_view(argv[1]), &assay::Named::name);
  if (named == std::end(table)) {
    std::fprintf(stderr, "usage: wrong-worker NAME CELL_FOLDER, or --list for the names\n");
    return 2;
  }
  assay::WrongBackend backend(*named);
  argv[1] = argv[0];
  return assay::worker_main(argc - 1, argv + 1, backend);
}
