// A small cell folder: 23 samples of shape (2, 2, 3) to train on, 10 for validation.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/batch/manifest.hpp"
#include "harness/batch/plan_file.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/philox.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {

struct Cell {
  static constexpr std::int64_t train = 23, validation = 10, elements = 12, classes = 5;

  TemporaryFolder folder;
  nlohmann::json request = {{"protocol", 1},
                            {"task", "train"},
                            {"mode", "graph"},
                            {"precision", "fp32"},
                            {"batch", 4},
                            {"loader", {{"kind", "harness"}, {"workers", 2}, {"prefetch", 3}}},
                            {"clock", {{"kind", "epochs"}, {"epochs", 2}, {"evaluate", {"validation"}}}}};

  Cell() {
    std::filesystem::create_directories(folder / "data");
    std::vector<std::uint8_t> inputs(static_cast<std::size_t>((train + validation) * elements));
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = raw(static_cast<std::int64_t>(i));
    std::vector<std::int32_t> labels(static_cast<std::size_t>(train + validation));
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = label(static_cast<std::int64_t>(i));
    write_npy(folder / "data" / "inputs.npy", {DType::u8, {train + validation, 2, 2, 3}},
              std::span<const std::uint8_t>(inputs));
    write_npy(folder / "data" / "labels.npy", {DType::i32, {train + validation}},
              std::span<const std::int32_t>(labels));
    Manifest manifest;
    manifest.name = "little";
    manifest.sample_shape = {2, 2, 3};
    manifest.classes = classes;
    manifest.normalisation.scale = {0.5f, 2.0f};
    manifest.normalisation.shift = {0, -1};
    manifest.splits["train"] = {"data/inputs.npy", "data/labels.npy", 0, train};
    manifest.splits["validation"] = {"data/inputs.npy", "data/labels.npy", train, validation};
    write_manifest(folder.path(), manifest);
    for (int epoch = 1; epoch <= 2; ++epoch) write_plan(folder.path(), epoch, plan(epoch));
    write_schedule(100);
    save_request();
  }

  static std::uint8_t raw(std::int64_t i) { return static_cast<std::uint8_t>(i * 31 % 251); }
  static std::int32_t label(std::int64_t i) { return static_cast<std::int32_t>(i * 7 % classes); }
  // Element e of a sample as the network should see it.
  static float input(std::int64_t sample, std::int64_t e) {
    const float value = raw(sample * elements + e);
    return e < elements / 2 ? value * 0.5f : value * 2 - 1;
  }
  static std::vector<PlanRow> plan(int epoch) {
    std::vector<PlanRow> rows(train);
    for (std::int32_t i = 0; i < train; ++i) rows[static_cast<std::size_t>(i)].sample = i;
    Philox(static_cast<std::uint64_t>(epoch), "order").shuffle(std::span(rows));
    return rows;
  }

  // The same samples as texts of a vocabulary of 251: inputs i32, fed unchanged.
  void write_tokens() const {
    std::vector<std::int32_t> inputs(static_cast<std::size_t>((train + validation) * elements));
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = raw(static_cast<std::int64_t>(i));
    write_npy(folder / "data" / "inputs.npy", {DType::i32, {train + validation, elements}},
              std::span<const std::int32_t>(inputs));
    Manifest manifest = read_manifest(folder.path());
    manifest.sample_shape = {elements};
    manifest.vocabulary = 251;
    manifest.normalisation.scale = {1};
    manifest.normalisation.shift = {0};
    write_manifest(folder.path(), manifest);
  }

  // The same tokens with a label for each position. The last position of every second sample does not count.
  void write_positions() const {
    write_tokens();
    std::vector<std::int32_t> labels(static_cast<std::size_t>((train + validation) * elements));
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = label_at(static_cast<std::int64_t>(i));
    write_npy(folder / "data" / "labels.npy", {DType::i32, {train + validation, elements}},
              std::span<const std::int32_t>(labels));
    Manifest manifest = read_manifest(folder.path());
    manifest.positions = elements;
    write_manifest(folder.path(), manifest);
  }
  static std::int32_t label_at(std::int64_t i) {
    const bool last = i % elements == elements - 1;
    return last && i / elements % 2 == 1 ? -1 : label(i);
  }

  void write_schedule(std::int64_t rows) const {
    std::vector<double> schedule;
    for (std::int64_t i = 0; i < rows; ++i)
      schedule.insert(schedule.end(), {0.001, static_cast<double>(i + 1)});
    write_npy(folder / "schedule.npy", {DType::f64, {rows, 2}}, std::span<const double>(schedule));
  }
  void save_request() const { write_atomically(folder / "request.json", request.dump(), false); }
  nlohmann::json results() const {
    return nlohmann::json::parse(read_text(folder / "results" / "clock.json"));
  }
  const std::filesystem::path& path() const { return folder.path(); }
};

}  // namespace assay
