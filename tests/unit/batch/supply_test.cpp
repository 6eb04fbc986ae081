#include "harness/batch/supply.hpp"

#include <malloc.h>

#include <array>
#include <cmath>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/core/json/strict_json.hpp"
#include "tests/unit/batch/cell_fixture.hpp"

namespace assay {
namespace {

using testing::HasSubstr;

struct Batch {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  std::int64_t samples = 0;
  bool operator==(const Batch&) const = default;
};

Batch read(BatchSupply& supply) {
  Batch batch{std::vector<float>(4 * Cell::elements, -7), std::vector<std::int32_t>(4, -7)};
  batch.samples = supply.next_batch(batch.inputs.data(), batch.labels.data());
  return batch;
}

// Logits that put `bonus` on the true class.
void evaluate(BatchSupply& supply, const assay_block& block) {
  for (std::int64_t i = 0; i < block.steps; ++i) {
    const Batch batch = read(supply);
    std::vector<float> logits(4 * Cell::classes, 0.0f);
    for (std::size_t r = 0; r < 4; ++r)
      if (batch.labels[r] >= 0) logits[r * Cell::classes + static_cast<std::size_t>(batch.labels[r])] = 3;
    supply.add_logits(logits.data());
  }
}

std::vector<Batch> run(BatchSupply& supply) {
  std::vector<Batch> batches;
  while (true) {
    const assay_block block = supply.next_block();
    if (block.kind == ASSAY_DONE) return batches;
    if (block.kind == ASSAY_EVALUATE) {
      evaluate(supply, block);
    } else {
      for (std::int64_t i = 0; i < block.steps; ++i) batches.push_back(read(supply));
      supply.enqueued();
    }
    supply.end_block(0.5);
  }
}

TEST(Supply, gives_the_same_batches_for_any_number_of_threads) {
  std::vector<std::vector<Batch>> runs;
  for (const int workers : {0, 1, 4}) {
    for (const int prefetch : {1, 3, 8}) {
      Cell cell;
      cell.request["loader"] = {{"kind", "harness"}, {"workers", workers}, {"prefetch", prefetch}};
      cell.save_request();
      BatchSupply supply(cell.path());
      runs.push_back(run(supply));
      EXPECT_EQ(runs.back(), runs.front()) << workers << " threads, " << prefetch << " ahead";
    }
  }
}

TEST(Supply, follows_the_plan_and_drops_the_last_partial_batch) {
  const Cell cell;
  BatchSupply supply(cell.path());
  const std::vector<Batch> batches = run(supply);
  ASSERT_EQ(batches.size(), 2u * 5u) << "23 samples are 5 batches of 4 and 3 that are dropped";
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const std::vector<PlanRow> plan = Cell::plan(b < 5 ? 1 : 2);
    for (std::size_t r = 0; r < 4; ++r) {
      const std::int64_t sample = plan[b % 5 * 4 + r].sample;
      EXPECT_EQ(batches[b].labels[r], Cell::label(sample));
      for (std::int64_t e = 0; e < Cell::elements; ++e)
        ASSERT_EQ(batches[b].inputs[r * Cell::elements + static_cast<std::size_t>(e)],
                  Cell::input(sample, e));
    }
  }
}

TEST(Supply, evaluates_every_sample_in_order_and_pads_the_last_batch) {
  const Cell cell;
  BatchSupply supply(cell.path());
  assay_block block = supply.next_block();
  for (std::int64_t i = 0; i < block.steps; ++i) read(supply);
  supply.end_block(1);
  block = supply.next_block();
  EXPECT_EQ(block.kind, ASSAY_EVALUATE);
  EXPECT_EQ(block.epoch, 1);
  EXPECT_EQ(block.steps, 3) << "10 samples in batches of 4";
  std::int64_t sample = Cell::train;
  for (int i = 0; i < 3; ++i) {
    const Batch batch = read(supply);
    EXPECT_EQ(batch.samples, i == 2 ? 2 : 4);
    for (std::size_t r = 0; r < 4; ++r, ++sample) {
      const bool there = sample < Cell::train + Cell::validation;
      EXPECT_EQ(batch.labels[r], there ? Cell::label(sample) : -1);
      for (std::int64_t e = 0; e < Cell::elements; ++e)
        ASSERT_EQ(batch.inputs[r * Cell::elements + static_cast<std::size_t>(e)],
                  there ? Cell::input(sample, e) : 0.0f);
    }
    // All wrong: the class after the true one.
    std::vector<float> logits(4 * Cell::classes, 0.0f);
    for (std::size_t r = 0; r < 4; ++r)
      if (batch.labels[r] >= 0)
        logits[r * Cell::classes + static_cast<std::size_t>((batch.labels[r] + 1) % Cell::classes)] = 2;
    supply.add_logits(logits.data());
  }
  supply.end_block(std::nan(""));
  supply.save();
  const auto evaluation = cell.results()["evaluations"][0];
  EXPECT_EQ(evaluation["split"], "validation");
  EXPECT_EQ(evaluation["samples"], 10);
  EXPECT_EQ(evaluation["accuracy"], 0);
  EXPECT_NEAR(evaluation["loss"].get<double>(), std::log(4 + std::exp(2.0)), 1e-12);
}

TEST(Supply, writes_results_under_the_names_of_the_report) {
  const Cell cell;
  BatchSupply supply(cell.path());
  run(supply);
  const auto json = cell.results();
  EXPECT_EQ(json["complete"], true);
  ASSERT_EQ(json["blocks"].size(), 2u);
  for (int epoch = 1; epoch <= 2; ++epoch) {
    const auto& block = json["blocks"][static_cast<std::size_t>(epoch - 1)];
    EXPECT_EQ(block["kind"], "timed");
    EXPECT_EQ(block["epoch"], epoch);
    EXPECT_EQ(block["steps"], 5);
    EXPECT_EQ(block["loss"], 0.5);
    EXPECT_GT(block["end_ns"], block["begin_ns"]);
    EXPECT_GT(block["wait_ns"], 0);
    EXPECT_LE(block["wait_ns"], block["end_ns"].get<std::int64_t>() - block["begin_ns"].get<std::int64_t>());
    EXPECT_GT(block["cpu_ns"], 0);
    EXPECT_GT(block["enqueue_ns"], 0);
    EXPECT_LE(block["enqueue_ns"],
              block["end_ns"].get<std::int64_t>() - block["begin_ns"].get<std::int64_t>());
    for (const char* name : {"involuntary_switches", "major_faults", "minor_faults", "steal_ns"})
      EXPECT_GE(block.at(name), 0);
  }
  ASSERT_EQ(json["evaluations"].size(), 2u);
  EXPECT_EQ(json["evaluations"][1]["accuracy"], 1);
  EXPECT_EQ(json["loader"]["kind"], "harness");
  EXPECT_EQ(json["loader"]["workers"], 2);
  EXPECT_EQ(json["loader"]["batches"], 10);
  EXPECT_GT(json["clock"]["resolution_ns"], 0);
}

TEST(Supply, KeepsTheRunningAccuracyOfABlock) {
  const Cell cell;
  {
    BatchSupply supply(cell.path());
    EXPECT_THROW(supply.running_accuracy(0.5), CallError) << "no block has ended";
    const assay_block block = supply.next_block();
    for (std::int64_t i = 0; i < block.steps; ++i) read(supply);
    EXPECT_THROW(supply.running_accuracy(0.5), CallError) << "the block is open";
    supply.end_block(0.5);
    EXPECT_THROW(supply.running_accuracy(1.5), CallError);
    EXPECT_THROW(supply.running_accuracy(std::nan("")), CallError);
    supply.running_accuracy(0.25);
    supply.save();
  }
  EXPECT_EQ(cell.results()["blocks"][0]["accuracy"], 0.25);
}

TEST(Supply, keeps_its_results_and_reports_an_early_end) {
  const Cell cell;
  {
    BatchSupply supply(cell.path());
    const assay_block block = supply.next_block();
    for (std::int64_t i = 0; i < block.steps; ++i) read(supply);
    supply.end_block(std::nan(""));
    supply.next_block();
    supply.save();
  }
  const auto json = cell.results();
  EXPECT_EQ(json["complete"], false);
  ASSERT_EQ(json["blocks"].size(), 1u);
  EXPECT_TRUE(json["blocks"][0]["loss"].is_null());
}

Cell steps_cell(const char* loader, const char* task = "train") {
  Cell cell;
  cell.request["task"] = task;
  cell.request["loader"] = {{"kind", loader}, {"workers", 1}, {"prefetch", 2}, {"resident_batches", 3}};
  cell.request["clock"] = {{"kind", "steps"},
                           {"warm_up", {{"min_steps", 3}, {"min_seconds", 0}}},
                           {"block_seconds", 0.001},
                           {"steps", 17}};
  cell.save_request();
  return cell;
}

TEST(Supply, walks_the_plans_of_a_steps_fork_again_and_again) {
  const Cell cell = steps_cell("harness");
  BatchSupply supply(cell.path());
  const std::vector<Batch> batches = run(supply);
  ASSERT_EQ(batches.size(), 20u) << "3 to warm up, 17 timed";
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(batches[i], batches[i + 10]) << "two plans of 5 batches";
  EXPECT_NE(batches[0], batches[5]);
}

TEST(Supply, resident_batches_wrap_around_the_first_plan) {
  Cell cell = steps_cell("resident");
  cell.request["loader"]["resident_batches"] = 6;
  cell.save_request();
  BatchSupply supply(cell.path());
  EXPECT_EQ(supply.layout().resident_batches, 6);
  Batch batch{std::vector<float>(4 * Cell::elements), std::vector<std::int32_t>(4)};
  supply.read_resident(5, batch.inputs.data(), batch.labels.data());
  for (std::size_t r = 0; r < 4; ++r)
    EXPECT_EQ(batch.labels[r], Cell::label(Cell::plan(1)[(20 + r) % 23].sample));
  EXPECT_THROW(supply.read_resident(6, batch.inputs.data(), batch.labels.data()), CallError);
  EXPECT_THROW(supply.read_resident(-1, batch.inputs.data(), batch.labels.data()), CallError);
}

TEST(Supply, keeps_the_last_learning_rate_after_the_schedule) {
  const Cell cell = steps_cell("resident");
  const BatchSupply supply(cell.path());
  ASSERT_GT(supply.layout().schedule_rows, 1000);
  EXPECT_EQ(supply.schedule()[2 * 1000], 0.001);
  EXPECT_EQ(supply.schedule()[2 * 1000 + 1], 1001);
}

TEST(Supply, stamps_one_latency_for_each_timed_step_of_an_inference) {
  const Cell cell = steps_cell("resident", "infer");
  BatchSupply supply(cell.path());
  while (true) {
    const assay_block block = supply.next_block();
    if (block.kind == ASSAY_DONE) break;
    for (std::int64_t i = 0; i < block.steps; ++i) supply.lap();
    supply.end_block(std::nan(""));
  }
  const auto json = cell.results();
  EXPECT_EQ(json["latencies_ns"].size(), 17u);
  EXPECT_EQ(json["latencies_seen"], 17);
  for (const auto& latency : json["latencies_ns"]) EXPECT_GE(latency, 0);
}

TEST(Supply, AsksForTheResultsOfSomeStepsOfAnInference) {
  Cell cell = steps_cell("resident", "infer");
  cell.request["clock"]["steps"] = 2000;
  cell.save_request();
  BatchSupply supply(cell.path());
  EXPECT_THAT([&] { supply.results_read(); },
              testing::ThrowsMessage<CallError>(HasSubstr("no results were asked")));
  std::size_t asked = 0;
  std::int64_t last = -1;
  for (assay_block block = supply.next_block(); block.kind != ASSAY_DONE; block = supply.next_block()) {
    for (std::int64_t i = 0; i < block.steps; ++i) {
      if (!supply.lap()) continue;
      ++asked;
      last = block.first_step + i;
      supply.results_read();
      supply.results_read();
    }
    const bool at_end = supply.end_block(std::nan(""));
    EXPECT_EQ(at_end, block.first_step + block.steps == 2003) << "the last step of the run is read";
    if (!at_end) continue;
    ++asked;
    last = 2002;
    supply.results_read();
    supply.results_read();
  }
  supply.save();
  const auto json = cell.results();
  EXPECT_GT(asked, 0u);
  EXPECT_LE(asked, 65u);
  EXPECT_EQ(json["readings"].size(), asked);
  for (const auto& reading : json["readings"])
    for (const char* part : {"interval_ns", "first_ns", "again_ns"}) EXPECT_GE(reading[part], 0) << part;
  EXPECT_EQ(json["readings"].back()["step"], last);
  EXPECT_FALSE(json["readings"].back().contains("token"));
}

TEST(Supply, NamesTheTokenWhoseResultsWereRead) {
  Cell cell = steps_cell("resident", "decode");
  BatchSupply supply(cell.path());
  std::pair<std::int64_t, std::int64_t> last{-1, -1};
  for (assay_block block = supply.next_block(); block.kind != ASSAY_DONE; block = supply.next_block()) {
    for (std::int64_t i = 0; i < block.steps; ++i) {
      supply.lap_prefill();
      for (std::int64_t token = 1; token <= 5; ++token) {
        if (!supply.lap()) continue;
        last = {block.first_step + i, token};
        supply.results_read();
        supply.results_read();
      }
    }
    if (!supply.end_block(std::nan(""))) continue;
    last = {block.first_step + block.steps - 1, 5};
    supply.results_read();
    supply.results_read();
  }
  supply.save();
  const auto reading = cell.results()["readings"].back();
  EXPECT_EQ(std::pair(reading["step"].get<std::int64_t>(), reading["token"].get<std::int64_t>()), last);
}

TEST(Supply, EvaluatesEachSplitOnceWithoutEpochs) {
  Cell cell;
  cell.request["clock"] = {{"kind", "epochs"}, {"epochs", 0}, {"evaluate", {"validation"}}};
  cell.save_request();
  BatchSupply supply(cell.path());
  EXPECT_TRUE(run(supply).empty());
  supply.save();
  const auto json = cell.results();
  EXPECT_TRUE(json["complete"]);
  ASSERT_EQ(json["evaluations"].size(), 1u);
  EXPECT_EQ(json["evaluations"][0]["samples"], Cell::validation);
}

// Bytes that malloc has given out, without those that it keeps for later.
std::size_t allocated() { return ::mallinfo2().uordblks; }

TEST(Supply, does_not_grow_over_ten_thousand_steps) {
  const std::size_t empty = allocated();
  const auto some = std::make_unique<std::array<char, 10'000>>();
  if (allocated() <= empty) GTEST_SKIP() << "a sanitizer's allocator does not report its allocations";
  Cell cell = steps_cell("harness", "infer");
  cell.request["clock"]["steps"] = 10'000;
  cell.request["clock"]["block_seconds"] = 0.0001;
  cell.save_request();
  BatchSupply supply(cell.path());
  Batch batch{std::vector<float>(4 * Cell::elements), std::vector<std::int32_t>(4)};
  std::size_t before = 0;
  std::size_t blocks = 0;
  std::int64_t steps = 0;
  for (assay_block block = supply.next_block(); block.kind != ASSAY_DONE; block = supply.next_block()) {
    for (std::int64_t i = 0; i < block.steps; ++i, ++steps) {
      const std::size_t in_block = allocated();
      supply.next_batch(batch.inputs.data(), batch.labels.data());
      supply.lap();
      ASSERT_EQ(allocated(), in_block) << "something is allocated in a block";
    }
    supply.end_block(0.5);
    if (++blocks == 1) before = allocated();
  }
  EXPECT_EQ(steps, 10'003);
  ASSERT_GT(before, 0u);
  // Only the record may grow: the latencies, and a line per block in a vector that doubles.
  EXPECT_LT(allocated(), before + (std::size_t{1} << 18) + 3 * blocks * sizeof(Block));
}

TEST(Supply, refuses_calls_out_of_turn) {
  const Cell cell;
  BatchSupply supply(cell.path());
  Batch batch{std::vector<float>(4 * Cell::elements), std::vector<std::int32_t>(4)};
  EXPECT_THROW(supply.end_block(0), CallError);
  EXPECT_THROW(supply.lap(), CallError);
  EXPECT_THROW(read(supply), CallError);
  EXPECT_THROW(supply.add_logits(batch.inputs.data()), CallError);
  const assay_block block = supply.next_block();
  EXPECT_THROW(supply.next_block(), CallError);
  EXPECT_THROW(supply.end_block(0), CallError) << "no batch was read";
  for (std::int64_t i = 0; i < block.steps; ++i) read(supply);
  EXPECT_THROW(read(supply), CallError);
  supply.end_block(0);
  supply.next_block();
  read(supply);
  EXPECT_THROW(read(supply), CallError) << "the logits are missing";
  EXPECT_THROW(supply.end_block(0), CallError) << "the evaluation is not whole";
}

std::string refusal(const Cell& cell) {
  try {
    BatchSupply supply(cell.path());
  } catch (const IoError& error) {
    return error.what();
  } catch (const JsonError& error) {
    return error.what();
  }
  return "opened";
}

TEST(Supply, says_which_field_of_the_request_is_wrong) {
  const auto with = [](const nlohmann::json& patch) {
    Cell cell;
    cell.request.merge_patch(patch);
    cell.save_request();
    return refusal(cell);
  };
  EXPECT_EQ(with({{"batch", 5}}), "opened");
  EXPECT_THAT(with({{"batch", nullptr}}), HasSubstr("the field \"batch\" is missing"));
  EXPECT_THAT(with({{"batch", 0}}), HasSubstr("/batch: 0 is below 1"));
  EXPECT_THAT(with({{"batch", -3}}), HasSubstr("/batch: -3 is below 1"));
  EXPECT_THAT(with({{"batch", 1.5}}), HasSubstr("/batch: should be an integer"));
  EXPECT_THAT(with({{"batch", 18446744073709551615u}}),
              HasSubstr("/batch: 18446744073709551615 is out of range"));
  EXPECT_THAT(with({{"batch", 24}}), HasSubstr("23 samples, fewer than a batch of 24"));
  EXPECT_THAT(with({{"task", "dance"}}), HasSubstr("/task: \"dance\" is not one of"));
  EXPECT_THAT(with({{"loader", {{"workers", -1}}}}), HasSubstr("/loader/workers: -1"));
  EXPECT_THAT(with({{"loader", {{"prefetch", 1000000}}}}), HasSubstr("/loader/prefetch: 1000000"));
  EXPECT_THAT(with({{"loader", 3}}), HasSubstr("/loader: should be an object"));
  EXPECT_THAT(with({{"clock", {{"kind", "moon"}}}}), HasSubstr("/clock/kind: \"moon\""));
  EXPECT_THAT(with({{"clock", {{"epochs", -1}}}}), HasSubstr("/clock/epochs: -1"));
  EXPECT_THAT(with({{"clock", {{"epochs", 3}}}}), HasSubstr("0003.plan.npy"));
  EXPECT_THAT(with({{"clock", {{"evaluate", {"exam"}}}}}), HasSubstr("no split 'exam'"));
}

TEST(Supply, says_which_field_of_the_manifest_is_wrong) {
  const auto with = [](const nlohmann::json& patch) {
    const Cell cell;
    const std::filesystem::path file = cell.folder / "data/manifest.json";
    nlohmann::json manifest = nlohmann::json::parse(read_text(file));
    manifest.merge_patch(patch);
    write_atomically(file, manifest.dump(), false);
    return refusal(cell);
  };
  EXPECT_EQ(with({{"name", "another"}}), "opened");
  EXPECT_THAT(with({{"schema", "assay-data/2"}}), HasSubstr("manifest.json/schema: \"assay-data/2\""));
  EXPECT_THAT(with({{"name", ""}}), HasSubstr("manifest.json/name: is empty"));
  EXPECT_THAT(with({{"kind", "tape"}}), HasSubstr("/kind: \"tape\" is not one of array, encoded"));
  EXPECT_THAT(with({{"kind", "encoded"}}), HasSubstr("/resize: is missing"));
  EXPECT_THAT(with({{"kind", "encoded"}, {"resize", 8}}), HasSubstr("/sample_shape: should be (3, H, W)"));
  EXPECT_THAT(with({{"resize", 16385}}), HasSubstr("/resize: 16385 is above 16384"));
  EXPECT_THAT(with({{"sample_shape", nlohmann::json::array()}}), HasSubstr("/sample_shape: is empty"));
  EXPECT_THAT(with({{"sample_shape", {2, 0, 3}}}), HasSubstr("/sample_shape/1: 0 is below 1"));
  EXPECT_THAT(with({{"sample_shape", {1, 1, 1, 1, 1, 1, 1, 1, 1}}}), HasSubstr("/sample_shape: has 9"));
  EXPECT_THAT(with({{"sample_shape", {65536, 65536}}}), HasSubstr("has more than 2147483648 elements"));
  EXPECT_THAT(with({{"classes", 0}}), HasSubstr("/classes: 0 is below 1"));
  EXPECT_THAT(with({{"vocabulary", 0}}), HasSubstr("/vocabulary: 0 is below 1"));
  EXPECT_THAT(with({{"normalisation", {{"scale", {1, 2, 3}}}}}),
              HasSubstr("/normalisation/scale: has 3 numbers, should have 1 or 2"));
  EXPECT_THAT(with({{"normalisation", {{"shift", {1e39}}}}}), HasSubstr("/normalisation/shift/0"));
  EXPECT_THAT(with({{"normalisation", {{"scale", {1, 1e38}}}}}),
              HasSubstr("/normalisation/scale: 1e+38 makes pixels infinite"));
  EXPECT_THAT(with({{"splits", {{"train", {{"inputs", ""}}}}}}), HasSubstr("/splits/train/inputs: is empty"));
  EXPECT_THAT(with({{"splits", {{"train", {{"count", nullptr}}}}}}),
              HasSubstr("/splits/train: the field \"count\" is missing"));
}

TEST(Supply, says_which_file_of_the_cell_is_missing_or_damaged) {
  for (const char* name : {"request.json", "schedule.npy", "data/manifest.json", "data/inputs.npy",
                           "data/labels.npy", "epochs/0001.plan.npy"}) {
    const Cell cell;
    std::filesystem::resize_file(cell.folder / name, 7);
    EXPECT_THAT(refusal(cell), HasSubstr(name));
    std::filesystem::remove(cell.folder / name);
    EXPECT_THAT(refusal(cell), HasSubstr(name));
  }
}

TEST(Supply, RefusesClassesThatTheNetworkDoesNotHave) {
  const auto with_logits = [](std::int64_t classes) {
    const Cell cell;
    const nlohmann::json program = {
        {"inference",
         {{"outputs", {{"logits", "fc"}}},
          {"values", {{{"name", "x"}, {"shape", {4, 12}}}, {{"name", "fc"}, {"shape", {4, classes}}}}}}}};
    write_atomically(cell.folder / "graph.json", program.dump(), false);
    return refusal(cell);
  };
  EXPECT_EQ(with_logits(Cell::classes), "opened");
  for (const std::int64_t classes : {Cell::classes - 1, Cell::classes + 1})
    EXPECT_THAT(with_logits(classes),
                HasSubstr("manifest.json: has 5 classes, but the logits of graph.json have " +
                          std::to_string(classes)));
}

TEST(Supply, refuses_data_that_disagree_with_the_manifest) {
  Cell labels;
  std::vector<std::int32_t> values(Cell::train + Cell::validation, 0);
  values[3] = Cell::classes;
  write_npy(labels.folder / "data/labels.npy", {DType::i32, {33}}, std::span<const std::int32_t>(values));
  EXPECT_THAT(refusal(labels), HasSubstr("sample 3 has label 5, but there are 5 classes"));
  write_npy(labels.folder / "data/labels.npy", {DType::i32, {20}},
            std::span<const std::int32_t>(values).first(20));
  EXPECT_THAT(refusal(labels), HasSubstr("20 labels"));

  const Cell schedule;
  schedule.write_schedule(9);
  EXPECT_THAT(refusal(schedule), HasSubstr("has 9 rows, but the request needs 10 steps"));

  const Cell plan;
  std::vector<PlanRow> rows = Cell::plan(1);
  rows[2].sample = 23;
  write_plan(plan.path(), 1, rows);
  BatchSupply supply(plan.path());
  EXPECT_THROW(supply.next_block(), IoError);
}

TEST(Supply, survives_mutated_requests_and_manifests) {
  Philox random(1, "requests");
  for (const char* name : {"request.json", "data/manifest.json"}) {
    const Cell cell;
    const std::string good = read_text(cell.folder / name);
    int refused = 0;
    for (int round = 0; round < 300; ++round) {
      std::string bad = good;
      // Digits stay one digit: a batch of 99999999 would be refused only because of its memory.
      for (int change = 0; change < 2; ++change)
        bad[random.below(bad.size())] = static_cast<char>(32 + random.below(95));
      write_atomically(cell.folder / name, bad, false);
      refused += refusal(cell) != "opened";
    }
    EXPECT_GT(refused, 100);
  }
}

TEST(Supply, feeds_tokens_as_they_are_and_pads_an_evaluation_with_zeros) {
  Cell cell;
  cell.write_tokens();
  BatchSupply supply(cell.path());
  ASSERT_EQ(supply.layout().input_type, ASSAY_I32);
  std::vector<std::int32_t> inputs(4 * Cell::elements), labels(4);
  std::vector<float> logits(4 * Cell::classes);
  for (int evaluated = 0;;) {
    const assay_block block = supply.next_block();
    if (block.kind == ASSAY_DONE) break;
    for (std::int64_t i = 0; i < block.steps; ++i) {
      const std::int64_t samples = supply.next_batch(inputs.data(), labels.data());
      for (std::size_t e = 0; e < inputs.size(); ++e) {
        const auto r = static_cast<std::int64_t>(e) / Cell::elements;
        if (block.kind == ASSAY_EVALUATE) {
          const std::int64_t sample = Cell::train + i * 4 + r;
          const std::int64_t at = sample * Cell::elements + static_cast<std::int64_t>(e) % Cell::elements;
          ASSERT_EQ(inputs[e], r < samples ? Cell::raw(at) : 0) << "element " << e;
          ++evaluated;
        } else {
          const std::int64_t sample = Cell::plan(block.epoch)[static_cast<std::size_t>(i * 4 + r)].sample;
          ASSERT_EQ(inputs[e],
                    Cell::raw(sample * Cell::elements + static_cast<std::int64_t>(e) % Cell::elements));
        }
      }
      if (block.kind == ASSAY_EVALUATE) supply.add_logits(logits.data());
    }
    supply.end_block(0.5);
    if (block.kind == ASSAY_EVALUATE) {
      EXPECT_GT(evaluated, 0);
    }
  }
}

TEST(Supply, FeedsALabelForEachPosition) {
  for (const int workers : {0, 2}) {
    Cell cell;
    cell.write_positions();
    cell.request["loader"]["workers"] = workers;
    cell.save_request();
    BatchSupply supply(cell.path());
    ASSERT_EQ(supply.layout().positions, Cell::elements);
    std::vector<std::int32_t> inputs(4 * Cell::elements), labels(4 * Cell::elements);
    const std::vector<float> logits(4 * Cell::elements * Cell::classes);
    for (assay_block block = supply.next_block(); block.kind != ASSAY_DONE; block = supply.next_block()) {
      for (std::int64_t i = 0; i < block.steps; ++i) {
        const std::int64_t samples = supply.next_batch(inputs.data(), labels.data());
        for (std::int64_t r = 0; r < 4; ++r) {
          const bool evaluated = block.kind == ASSAY_EVALUATE;
          const std::int64_t sample =
              evaluated ? Cell::train + i * 4 + r
                        : Cell::plan(block.epoch)[static_cast<std::size_t>(i * 4 + r)].sample;
          for (std::int64_t t = 0; t < Cell::elements; ++t)
            ASSERT_EQ(labels[static_cast<std::size_t>(r * Cell::elements + t)],
                      r < samples ? Cell::label_at(sample * Cell::elements + t) : -1);
        }
        if (block.kind == ASSAY_EVALUATE) supply.add_logits(logits.data());
      }
      supply.end_block(0.5);
    }
  }
}

TEST(Supply, EvaluatesOverThePositionsThatCount) {
  Cell cell;
  cell.write_positions();
  BatchSupply supply(cell.path());
  std::vector<std::int32_t> inputs(4 * Cell::elements), labels(4 * Cell::elements);
  for (assay_block block = supply.next_block(); block.kind != ASSAY_DONE; block = supply.next_block()) {
    for (std::int64_t i = 0; i < block.steps; ++i) {
      supply.next_batch(inputs.data(), labels.data());
      if (block.kind != ASSAY_EVALUATE) continue;
      // Right at every even position that counts.
      std::vector<float> logits(labels.size() * Cell::classes);
      for (std::size_t p = 0; p < labels.size(); ++p) {
        const std::size_t right = labels[p] < 0 ? 0 : static_cast<std::size_t>(labels[p]);
        logits[p * Cell::classes + (p % 2 == 0 ? right : (right + 1) % Cell::classes)] = 9;
      }
      supply.add_logits(logits.data());
    }
    supply.end_block(0.5);
  }
  supply.save();
  const nlohmann::json evaluation = cell.results()["evaluations"][0];
  // 10 samples of 12 positions; 5 of the samples have one that does not count.
  EXPECT_EQ(evaluation["samples"], 10 * Cell::elements - 5);
  EXPECT_DOUBLE_EQ(evaluation["accuracy"].get<double>(), 60.0 / 115);
}

TEST(Supply, RefusesLabelsThatDoNotFitThePositions) {
  Cell one;
  one.write_positions();
  Manifest manifest = read_manifest(one.path());
  manifest.positions = Cell::elements - 1;
  write_manifest(one.path(), manifest);
  EXPECT_THAT(refusal(one), HasSubstr("wanted i32 (N, 11)"));

  Cell beyond;
  beyond.write_positions();
  manifest = read_manifest(beyond.path());
  manifest.classes = Cell::classes - 1;
  write_manifest(beyond.path(), manifest);
  EXPECT_THAT(refusal(beyond), HasSubstr("has label 4, but there are 4 classes"));

  Cell single;
  single.write_tokens();
  manifest = read_manifest(single.path());
  manifest.positions = Cell::elements;
  write_manifest(single.path(), manifest);
  EXPECT_THAT(refusal(single), HasSubstr("is i32 (33), wanted i32 (N, 12)"));
}

TEST(Supply, refuses_a_token_beyond_the_vocabulary_naming_its_place) {
  Cell cell;
  cell.write_tokens();
  Manifest manifest = read_manifest(cell.path());
  manifest.vocabulary = 250;
  write_manifest(cell.path(), manifest);
  try {
    const BatchSupply supply(cell.path());
    FAIL();
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has token 250 at place"));
  }
}

TEST(Supply, refuses_images_where_the_manifest_says_tokens) {
  const Cell cell;
  Manifest manifest = read_manifest(cell.path());
  manifest.vocabulary = 251;
  write_manifest(cell.path(), manifest);
  EXPECT_THROW(BatchSupply(cell.path()), IoError);
}

// One of two ranks, with blocks of 0.1 s after ten steps.
void make_it_of_two_ranks(Cell& cell) {
  cell.request["rank"] = 1;
  cell.request["world"] = 2;
  cell.request["loader"] = {{"kind", "resident"}, {"resident_batches", 2}};
  cell.request["clock"] = {{"kind", "steps"},
                           {"warm_up", {{"min_steps", 10}, {"min_seconds", 0}}},
                           {"block_seconds", 0.1},
                           {"blocks", 2}};
  cell.save_request();
}

TEST(Supply, sizes_the_blocks_of_a_rank_by_the_time_of_rank_0) {
  Cell cell;
  make_it_of_two_ranks(cell);
  BatchSupply supply(cell.path());
  int calls = 0;
  supply.set_agree([&](std::int64_t) -> std::int64_t { return ++calls % 2 == 1 ? 0 : 10'000'000; });
  EXPECT_EQ(supply.next_block().steps, 10);
  EXPECT_EQ(calls, 1) << "ranks begin a block together";
  supply.end_block(0.5);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(supply.next_block().steps, 100) << "rank 0 took 1 ms for a step";
}

TEST(Supply, measures_no_rank_that_cannot_agree_with_the_others) {
  Cell cell;
  make_it_of_two_ranks(cell);
  BatchSupply supply(cell.path());
  EXPECT_THROW(supply.next_block(), CallError) << "nobody set how";
  BatchSupply other(cell.path());
  other.set_agree([](std::int64_t) -> std::int64_t { return -1; });
  EXPECT_THROW(other.next_block(), CallError);
}

TEST(Supply, asks_nobody_if_there_is_one_rank) {
  const Cell cell;
  BatchSupply supply(cell.path());
  supply.set_agree([](std::int64_t) -> std::int64_t { return -1; });
  EXPECT_EQ(run(supply).size(), 10u);
}

}  // namespace
}  // namespace assay
