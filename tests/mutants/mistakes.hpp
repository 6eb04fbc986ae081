// Mistakes in steps, slots, batches and evaluation: those of tests/mutants/wrong.py.
#pragma once

#include "tests/mutants/wrong.hpp"

namespace assay::mutants {

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
    const State now = right->state();
    right->set_state(started_);
    right->evaluate(batch, logits);
    right->set_state(now);
  }
  State started_;
};

class ComputesHalfTheBatch : public Wrong {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    stage_changed(slot, batch, repeat_first_half);
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
    State kept;
    for (const HostTensor& tensor : tensors)
      if (!is_moment(tensor.name)) kept.push_back(tensor);
    right->set_state(kept);
  }
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
  State first_;
};

class InfersTheFirstSlot : public Wrong {
  void step(std::int64_t, double rate, std::int64_t number) override { right->step(0, rate, number); }
};

class LeavesLaterSlotsZero : public Wrong {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    stage_changed(slot, batch, [&](Bytes& inputs, Labels&) {
      if (slot) std::ranges::fill(inputs, std::byte{});
    });
  }
};

class ReusesTheFirstBatch : public Wrong {
  void set_state(std::span<const HostTensor> tensors) override {
    kept_ = false;
    right->set_state(tensors);
  }
  void stage(std::int64_t slot, const HostBatch& batch) override {
    if (!kept_) right->stage(slot, batch);
    kept_ = true;
  }
  bool kept_ = false;
};

class ComputesHalfOfTheOp : public Wrong {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    stage_changed(slot, batch, [&](Bytes& inputs, Labels&) { zero_half_of_the_op(inputs); });
  }
};

}  // namespace assay::mutants
