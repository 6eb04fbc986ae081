#include "harness/worker/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "harness/protocol/exam_files.hpp"
#include "tests/unit/batch/cell_fixture.hpp"

namespace assay {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::SizeIs;

// Writes down what is asked of it.
class Witness final : public Executable {
 public:
  void set_state(std::span<const HostTensor>) override {}
  std::vector<HostTensor> state() override { return {}; }
  void stage(std::int64_t slot, const HostBatch& batch) override {
    staged.push_back(slot);
    first_inputs.push_back(static_cast<const float*>(batch.inputs)[0]);
    first_labels.push_back(batch.labels[0]);
  }
  void step(std::int64_t slot, double learning_rate, std::int64_t step) override {
    slots.push_back(slot);
    rates.push_back(learning_rate);
    numbers.push_back(step);
    drained = false;
  }
  void prefill(std::int64_t slot) override { calls += "p" + std::to_string(slot); }
  void next_token(std::int64_t slot) override { calls += "t" + std::to_string(slot); }
  void synchronize() override {
    ++synchronisations;
    drained = true;
  }
  double loss() override {
    EXPECT_TRUE(drained) << "the loss is read before the block is drained";
    ++losses;
    return 1.5;
  }
  void evaluate(const HostBatch&, float* logits) override {
    ++evaluations;
    for (std::int64_t i = 0; i < 4 * Cell::classes; ++i) logits[i] = i % Cell::classes == 0 ? 1.0F : 0.0F;
  }
  // The number of steps before the last one.
  std::vector<HostTensor> results() override {
    HostTensor found = HostTensor::zeros("logits", {DType::f32, {elements}});
    found.as<float>()[0] = static_cast<float>(slots.size() - 1);
    return {found};
  }
  std::map<std::string, std::int64_t> memory() const override { return {}; }

  std::int64_t elements = 1;  // of the results
  std::vector<std::int64_t> staged, slots, numbers;
  std::vector<double> rates;
  std::vector<float> first_inputs;
  std::vector<std::int32_t> first_labels;
  std::string calls;  // of task decode
  int synchronisations = 0, losses = 0, evaluations = 0;
  bool drained = true;
};

Trained train_in(const Cell& cell, Witness& witness, Task task, const ReportProgress& progress = {}) {
  Supply supply(cell.path());
  Trained found = train(witness, supply, task == Task::infer ? Timed::inference : Timed::training, progress);
  supply.close();
  return found;
}

TEST(Trainer, rotates_resident_batches_and_reads_the_schedule_by_row) {
  Cell cell;
  cell.request["loader"] = {{"kind", "resident"}, {"resident_batches", 3}};
  cell.request["clock"] = {
      {"kind", "steps"}, {"steps", 7}, {"warm_up", {{"min_steps", 2}, {"min_seconds", 0}}}};
  cell.save_request();
  Witness witness;
  train_in(cell, witness, Task::train);
  EXPECT_THAT(witness.staged, ElementsAre(0, 1, 2));
  ASSERT_THAT(witness.slots, SizeIs(Ge(9)));
  for (std::size_t i = 0; i < witness.slots.size(); ++i) {
    EXPECT_EQ(witness.slots[i], static_cast<std::int64_t>(i % 3));
    EXPECT_EQ(witness.numbers[i], static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(witness.rates[i], 0.001);
  }
  EXPECT_GE(witness.losses, 2);
  EXPECT_LE(witness.losses, static_cast<int>(witness.slots.size()));
  EXPECT_TRUE(std::filesystem::exists(cell.folder / "results" / "clock.json"));
}

TEST(Trainer, feeds_every_batch_of_the_plan_and_evaluates_between_epochs) {
  Cell cell;
  Witness witness;
  train_in(cell, witness, Task::train);
  constexpr std::size_t batches = 2 * (Cell::train / 4);
  ASSERT_THAT(witness.slots, SizeIs(batches));
  EXPECT_THAT(witness.slots, Each(0));
  ASSERT_THAT(witness.first_inputs, SizeIs(batches));
  for (std::size_t i = 0; i < batches; ++i) {
    const int epoch = static_cast<int>(i / (batches / 2)) + 1;
    const auto row = i % (batches / 2) * 4;
    const std::int32_t sample = Cell::plan(epoch)[row].sample;
    EXPECT_EQ(witness.first_inputs[i], Cell::input(sample, 0)) << i;
    EXPECT_EQ(witness.first_labels[i], Cell::label(sample)) << i;
  }
  EXPECT_EQ(witness.evaluations, 2 * 3) << "10 samples in batches of 4, twice";
  const auto results = cell.results();
  EXPECT_NE(results.dump().find("1.5"), std::string::npos) << "the loss of the last step is written down";
}

TEST(Trainer, waits_for_each_inference) {
  Cell cell;
  cell.request["task"] = "infer";
  cell.request["loader"] = {{"kind", "resident"}, {"resident_batches", 2}};
  cell.request["clock"] = {
      {"kind", "steps"}, {"steps", 5}, {"warm_up", {{"min_steps", 2}, {"min_seconds", 0}}}};
  cell.save_request();
  Witness witness;
  const Trained found = train_in(cell, witness, Task::infer);
  EXPECT_GE(witness.synchronisations, static_cast<int>(witness.slots.size()));
  EXPECT_EQ(witness.losses, 0) << "an inference has no loss";
  ASSERT_EQ(found.read.size(), 1U);
  EXPECT_EQ(found.read[0].as<float>()[0], cell.results()["readings"].back()["step"]) << "what was read last";
  Witness large;
  large.elements = max_read_elements + 1;
  EXPECT_TRUE(train_in(cell, large, Task::infer).read.empty());
}

TEST(Trainer, TimesEachPromptAndEachTokenOfAGeneration) {
  Cell cell;
  cell.request["task"] = "decode";
  cell.request["loader"] = {{"kind", "resident"}, {"resident_batches", 2}};
  cell.request["clock"] = {
      {"kind", "steps"}, {"steps", 5}, {"warm_up", {{"min_steps", 2}, {"min_seconds", 0}}}};
  cell.save_request();
  Witness witness;
  Supply supply(cell.path());
  train(witness, supply, Timed::decoding, {}, 3);
  supply.close();
  EXPECT_TRUE(witness.slots.empty());
  EXPECT_TRUE(witness.calls.starts_with("p0t0t0t0p1t1t1t1p0t0t0t0")) << witness.calls;
  const auto generations = witness.calls.size() / 8;
  EXPECT_GE(witness.synchronisations, static_cast<int>(4 * generations));
  EXPECT_EQ(witness.losses, 0);
  EXPECT_EQ(cell.results()["prefills_ns"].size(), 5U);
  EXPECT_EQ(cell.results()["latencies_ns"].size(), 15U);
}

TEST(Trainer, drains_a_single_op_once_a_block_and_reads_no_schedule) {
  Cell cell;
  std::filesystem::remove(cell.folder / "schedule.npy");
  cell.request["op"] = {{"size", "16"}, {"cache", "cold"}};
  cell.request["loader"] = {{"kind", "resident"}, {"resident_batches", 3}};
  cell.request["clock"] = {
      {"kind", "steps"}, {"steps", 50}, {"warm_up", {{"min_steps", 10}, {"min_seconds", 0}}}};
  cell.save_request();
  Witness witness;
  Supply supply(cell.path());
  train(witness, supply, Timed::op, {});
  supply.close();
  EXPECT_GE(witness.slots.size(), 60U);
  for (std::size_t i = 0; i < witness.slots.size(); ++i)
    EXPECT_EQ(witness.slots[i], static_cast<std::int64_t>(i % 3));
  EXPECT_THAT(witness.rates, Each(0));
  EXPECT_EQ(witness.losses, 0);
  EXPECT_EQ(witness.synchronisations, static_cast<int>(cell.results()["blocks"].size()));
  EXPECT_TRUE(cell.results()["latencies_ns"].empty()) << "a step is not drained, so it has no latency";
}

TEST(Trainer, passes_on_exceptions_of_the_executable) {
  class Broken final : public Executable {
   public:
    void set_state(std::span<const HostTensor>) override {}
    std::vector<HostTensor> state() override { return {}; }
    void stage(std::int64_t, const HostBatch&) override {}
    void step(std::int64_t, double, std::int64_t) override { throw std::runtime_error("[linear] broke"); }
    void synchronize() override {}
    double loss() override { return 0; }
    void evaluate(const HostBatch&, float*) override {}
    std::vector<HostTensor> results() override { return {}; }
    std::map<std::string, std::int64_t> memory() const override { return {}; }
  };
  Cell cell;
  Supply supply(cell.path());
  Broken broken;
  EXPECT_THROW(train(broken, supply, Timed::training, {}), std::runtime_error);
}

TEST(Supply, reports_errors_in_a_folder) {
  const TemporaryFolder folder;
  try {
    Supply supply(folder.path());
    FAIL() << "an empty folder was opened";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("request.json"));
  }
}

}  // namespace
}  // namespace assay
