#include "harness/worker/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "harness/core/error.hpp"
#include "harness/protocol/exam_files.hpp"

namespace assay {
namespace {

std::int64_t labels_of_batch(const assay_layout& layout) {
  return layout.batch * std::max<std::int64_t>(1, layout.positions);
}

class Trainer {
 public:
  Trainer(Executable& executable, Supply& supply, Timed timed, const ReportProgress& progress,
          std::int64_t tokens)
      : executable_(executable),
        supply_(supply),
        progress_(progress),
        timed_(timed),
        tokens_(tokens),
        resident_(supply.layout().resident_batches),
        inputs_(static_cast<std::size_t>(supply.layout().batch * supply.layout().sample_elements)),
        labels_(static_cast<std::size_t>(labels_of_batch(supply.layout()))) {}

  Trained run() {
    stage_resident(executable_, supply_);
    tell();  // right before the first block, and right after the last: the conductor stamps both
    for (;;) {
      const assay_block block = supply_.next_block();
      if (block.kind == ASSAY_DONE) break;
      if (block.kind == ASSAY_EVALUATE) {
        evaluate(block);
      } else {
        check(block);
        steps(block);
        if (timed_ != Timed::inference) supply_.enqueued();
        executable_.synchronize();
        if (supply_.end_block(timed_ == Timed::training ? executable_.loss()
                                                        : std::numeric_limits<double>::quiet_NaN()))
          read_results();
      }
      tell();
    }
    tell();
    return {last_step_, std::move(read_)};
  }

 private:
  void check(const assay_block& block) const {
    if (timed_ != Timed::training ||
        (block.first_step >= 0 && block.first_step + block.steps <= supply_.layout().schedule_rows))
      return;
    throw CellError(fmt::format("[train] a block has steps {} to {}, but schedule.npy has {} rows",
                                block.first_step, block.first_step + block.steps,
                                supply_.layout().schedule_rows));
  }

  void steps(const assay_block& block) {
    for (std::int64_t row = block.first_step; row < block.first_step + block.steps; ++row) {
      std::int64_t slot = 0;
      if (resident_ > 0) {
        slot = row % resident_;
      } else {
        supply_.next_batch(inputs_.data(), labels_.data());
        executable_.stage(0, {inputs_.data(), labels_.data()});
      }
      if (timed_ == Timed::op) {
        executable_.step(slot, 0, row + 1);
      } else if (timed_ == Timed::inference) {
        executable_.step(slot, 0, row + 1);
        executable_.synchronize();
        if (supply_.lap()) read_results();
      } else if (timed_ == Timed::decoding) {
        generate(slot);
      } else {
        last_step_ = supply_.step(row);
        executable_.step(slot, supply_.learning_rate(row), last_step_);
      }
    }
  }

  void generate(std::int64_t slot) {
    executable_.prefill(slot);
    executable_.synchronize();
    supply_.lap_prefill();
    for (std::int64_t token = 0; token < tokens_; ++token) {
      executable_.next_token(slot);
      executable_.synchronize();
      if (supply_.lap()) read_results();
    }
  }

  void read_results() {
    for (int reading = 0; reading < 2; ++reading) {
      read_ = executable_.results();
      supply_.results_read();
    }
    if (read_elements() > max_read_elements) read_.clear();
  }

  std::int64_t read_elements() const {
    std::int64_t sum = 0;
    for (const HostTensor& tensor : read_) sum += tensor.type.elements();
    return sum;
  }

  void evaluate(const assay_block& block) {
    logits_.resize(labels_.size() * static_cast<std::size_t>(supply_.layout().classes));
    for (std::int64_t i = 0; i < block.steps; ++i) {
      supply_.next_batch(inputs_.data(), labels_.data());
      executable_.evaluate({inputs_.data(), nullptr}, logits_.data());
      supply_.add_logits(logits_.data());
    }
    supply_.end_block(std::numeric_limits<double>::quiet_NaN());
  }

  void tell() {
    if (!progress_) return;
    const auto [done, planned] = supply_.progress();
    progress_(done, planned);
  }

  Executable& executable_;
  Supply& supply_;
  const ReportProgress& progress_;
  Timed timed_;
  std::int64_t tokens_;
  std::int64_t resident_;
  std::int64_t last_step_ = 0;
  std::vector<HostTensor> read_{};
  std::vector<std::uint32_t> inputs_;  // the bits of f32 or i32
  std::vector<std::int32_t> labels_;
  std::vector<float> logits_;
};

}  // namespace

void stage_resident(Executable& executable, Supply& supply) {
  const assay_layout& layout = supply.layout();
  std::vector<std::uint32_t> inputs(static_cast<std::size_t>(layout.batch * layout.sample_elements));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(labels_of_batch(layout)));
  for (std::int64_t slot = 0; slot < layout.resident_batches; ++slot) {
    supply.read_resident(slot, inputs.data(), labels.data());
    executable.stage(slot, {inputs.data(), labels.data()});
  }
}

Trained train(Executable& executable, Supply& supply, Timed timed, const ReportProgress& progress,
              std::int64_t tokens) {
  return Trainer(executable, supply, timed, progress, tokens).run();
}

}  // namespace assay
