// Executables that deceive the check on purpose: those of tests/mutants/cheats.py.
#pragma once

#include <sched.h>

#include <fstream>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "tests/mutants/wrong.hpp"

namespace assay::mutants {

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
  State state() override {
    State told = right->state();
    for (HostTensor& tensor : told) {
      const auto given = std::ranges::find(given_, tensor.name, &HostTensor::name);
      if (given != given_.end()) tensor = *given;
    }
    return told;
  }
  State given_;
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

class HalvesTheBatchesOfARun : public Wrong {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    const auto elements = static_cast<std::size_t>(batches.row_bytes) / sizeof(float);
    const auto* inputs = static_cast<const float*>(batch.inputs);
    std::set<long> sums;
    for (std::int64_t row = 0; row < batches.rows; ++row, inputs += elements)
      sums.insert(std::lround(100 * std::accumulate(inputs, inputs + elements, 0.0)));
    if (2 * std::ssize(sums) > batches.rows)
      stage_changed(slot, batch, repeat_first_half);
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

class DoesNothingLater : public SinceTheState {
 public:
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    ++since_;
    if (is_done()) right->step(slot, rate, number);
  }

 protected:
  virtual bool is_done() const { return since_ <= 3; }
};

class DoesOneStepInTen : public DoesNothingLater {
  bool is_done() const override { return since_ <= 3 || since_ % 10 == 0; }
};

class ComputesOnlyForwardLater : public SinceTheState {
  void stage(std::int64_t slot, const HostBatch& batch) override {
    std::pair<Bytes, Labels>& kept = kept_[slot];
    stage_changed(slot, batch, [&kept](Bytes& inputs, Labels& labels) { kept = {inputs, labels}; });
  }
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    own_loss_.reset();
    if (++since_ <= 3) return right->step(slot, rate, number);
    const auto& [inputs, labels] = kept_.at(slot);
    const Graph& graph = program->inference;
    const auto classes = static_cast<std::size_t>(graph.value(graph.output("logits")).type.shape.back());
    std::vector<float> logits(labels.size() * classes);
    right->evaluate({inputs.data(), nullptr}, logits.data());
    double sum = 0;
    for (std::size_t row = 0; row < labels.size(); ++row) {
      const std::span<const float> of_row = std::span(logits).subspan(row * classes, classes);
      const double largest = std::ranges::max(of_row);
      double total = 0;
      for (const float logit : of_row) total += std::exp(logit - largest);
      sum += std::log(total) + largest - of_row[static_cast<std::size_t>(labels[row])];
    }
    own_loss_ = sum / static_cast<double>(labels.size());
  }
  double loss() override { return own_loss_ ? *own_loss_ : right->loss(); }
  std::map<std::int64_t, std::pair<Bytes, Labels>> kept_;
  std::optional<double> own_loss_;
};

class HalvesLaterBatches : public TwoBatches {
  void alter(Bytes& inputs, Labels& labels) override { repeat_first_half(inputs, labels); }
};

class RoundsLaterBatches : public TwoBatches {
  void alter(Bytes& inputs, Labels&) override { round_inputs(inputs); }
};

class ComputesOneSampleUntilItIsExamined : public TwoBatches {
  void alter(Bytes& inputs, Labels& labels) override {
    const std::size_t row = inputs.size() / labels.size();
    for (std::size_t at = row; at < inputs.size(); at += row)
      std::copy_n(inputs.begin(), row, inputs.begin() + static_cast<std::ptrdiff_t>(at));
    std::ranges::fill(labels, labels.front());
  }
  bool other_batch() const override { return !examined_; }
  void supply_masks(std::span<const HostTensor> masks) override {
    examined_ = true;
    right->supply_masks(masks);
  }
  bool examined_ = false;
};

class HalvesTheBatchesOfAStart : public TwoBatches {
  void alter(Bytes& inputs, Labels& labels) override { repeat_first_half(inputs, labels); }
  bool other_batch() const override { return halves_; }
  void set_state(std::span<const HostTensor> tensors) override {
    halves_ = std::ranges::none_of(tensors, [](const HostTensor& t) { return is_moment(t.name); });
    right->set_state(tensors);
  }
  std::map<std::string, std::int64_t> memory() const override {
    ++reports_;
    halves_ = halves_ && reports_ < 2;
    return right->memory();
  }
  mutable bool halves_ = false;
  mutable int reports_ = 0;  // after compiling and after the run
};

class StepsAfterTheClock : public Wrong {
  struct Queued {
    std::int64_t slot;
    double rate;
    std::int64_t number;
  };
  void set_state(std::span<const HostTensor> tensors) override {
    queue_.clear();
    right->set_state(tensors);
  }
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (reports_ == 1)
      queue_.push_back({slot, rate, number});
    else
      right->step(slot, rate, number);
  }
  std::map<std::string, std::int64_t> memory() const override {
    ++reports_;
    for (const Queued& queued : queue_) right->step(queued.slot, queued.rate, queued.number);
    queue_.clear();
    return right->memory();
  }
  mutable std::vector<Queued> queue_;
  mutable int reports_ = 0;
};

inline nlohmann::json read_document(const char* path) {
  std::ifstream file(path);
  return file ? nlohmann::json::parse(file) : nlohmann::json();
}

// The worker starts in the cell folder.
class ShortensItsBlocks : public Wrong {
  std::map<std::string, std::int64_t> memory() const override {
    constexpr const char* path = "results/clock.json";
    if (nlohmann::json document = read_document(path); !document.is_null()) {
      for (nlohmann::json& block : document["blocks"]) {
        const auto begin = block["begin_ns"].get<std::int64_t>();
        block["end_ns"] = begin + (block["end_ns"].get<std::int64_t>() - begin) / 10;
        for (const char* part : {"enqueue_ns", "wait_ns", "cpu_ns"})
          block[part] = block.value(part, std::int64_t{0}) / 10;
      }
      document.erase("disturbance");  // a disturbed fork does not count
      std::ofstream(path) << document;
    }
    return right->memory();
  }
};

class AsksForLessPrecision : public Wrong {
 public:
  AsksForLessPrecision() {
    nlohmann::json request = read_document("request.json");
    request["precision"] = "bf16";
    std::ofstream("request.json") << request;
  }

 private:
  void stage(std::int64_t slot, const HostBatch& batch) override {
    stage_changed(slot, batch, [](Bytes& inputs, Labels&) { round_inputs(inputs); });
  }
};

class RemembersTheLogitsOfASlot : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    slot_ = slot;
    if (logits_.contains(slot)) return;
    right->step(slot, rate, number);
    logits_[slot] = right->results();
  }
  State results() override { return logits_.at(slot_); }
  std::int64_t slot_ = 0;
  std::map<std::int64_t, State> logits_;
};

class ClaimsOneByte : public Wrong {
  std::map<std::string, std::int64_t> memory() const override { return {{"persistent", 1}}; }
};

class LeavesItsProcessors : public Wrong {
 public:
  LeavesItsProcessors() {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
    ::sched_setaffinity(0, sizeof all, &all);
  }
};

class LeavesTheOpToItsResults : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    slot_ = slot, rate_ = rate, number_ = number;
  }
  State results() override {
    right->step(slot_, rate_, number_);
    return right->results();
  }
  std::int64_t slot_ = 0, number_ = 0;
  double rate_ = 0;
};

class LeavesHalfOfTheOpToItsResults : public TwoBatches {
  void alter(Bytes& inputs, Labels&) override { zero_half_of_the_op(inputs); }
  bool other_batch() const override { return true; }
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    slot_ = slot, rate_ = rate, number_ = number;
    TwoBatches::step(slot, rate, number);
  }
  State results() override {
    right->step(2 * slot_, rate_, number_);
    return right->results();
  }
  std::int64_t slot_ = 0, number_ = 0;
  double rate_ = 0;
};

}  // namespace assay::mutants
