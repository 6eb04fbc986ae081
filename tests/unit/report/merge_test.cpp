#include "harness/report/merge.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/report/analysis.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metrics.hpp"
#include "harness/report/report_json.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int rounds_each = 6;

// Two groups of two backends: with two threads, and with one.
std::vector<CellReport> all_cells() {
  std::vector<CellReport> cells;
  for (const int threads : {2, 1})
    for (CellReport cell : {test::sample_cell("onednn", "graph", 0.002 * threads, rounds_each),
                            test::sample_cell("torch", "compile", 0.008 * threads, rounds_each)}) {
      cell.axes.threads = threads;
      cell.metrics = metrics_of(cell);
      cell.id = cell_id(cell.axes);
      cells.push_back(cell);
    }
  return cells;
}

std::string time_text(int minute) { return fmt::format("2026-01-02T03:{:02}:05Z", minute); }

// The report of one of two shards, each with one group, as `assay run --shard` writes it.
Report shard_report(int index) {
  Report report = test::sample_report(rounds_each);
  report.schema = report_schema;
  report.cells = all_cells();
  report.environment.host = fmt::format("node{}", index);
  report.run.shard = Shard{.index = index, .count = 2};
  report.run.start = time_text(index);
  report.run.end = time_text(40 + index);
  report.run.sessions = {{.start = time_text(index), .commit = "abc"}};
  DatasetRecord data;
  data.name = "fashion-mnist";
  data.sample_shape = {1, 28, 28};
  data.classes = 10;
  data.folder = fmt::format("/data{}", index);
  data.checksum = "ab";
  report.run.datasets = {data};
  int order = 0;
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    CellReport& cell = report.cells[i];
    if (static_cast<int>(i / 2) + 1 != index) {
      end_with(cell, ReasonCode::other_shard, fmt::format("belongs to shard {} of 2", i / 2 + 1));
      cell.forks.clear();
      cell.metrics.clear();
      cell.equivalence = {.reason = "not reached"};
      continue;
    }
    for (Fork& fork : cell.forks) {
      fork.order = order++;
      fork.session = 0;
      fork.start = time_text(index + order);
    }
  }
  return report;
}

std::vector<MergePart> both() { return {{"a.json", shard_report(1)}, {"b.json", shard_report(2)}}; }

TEST(Merge, TakesEachCellFromTheShardThatMeasuredIt) {
  const Report merged = merge(both(), {"assay", "merge"});
  const std::vector<CellReport> whole = all_cells();
  ASSERT_EQ(merged.cells.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(merged.cells[i].id, whole[i].id);
    EXPECT_EQ(merged.cells[i].status, Status::ok);
    EXPECT_EQ(merged.cells[i].environment, static_cast<int>(i / 2));
    EXPECT_EQ(*machine_of(merged, merged.cells[i]).host, i < 2 ? "node1" : "node2");
    ASSERT_EQ(merged.cells[i].forks.size(), whole[i].forks.size());
    for (std::size_t round = 0; round < whole[i].forks.size(); ++round) {
      EXPECT_EQ(merged.cells[i].forks[round].seed, whole[i].forks[round].seed);
      EXPECT_EQ(merged.cells[i].forks[round].session, static_cast<int>(i / 2))
          << "numbered after the first shard's";
    }
  }
  EXPECT_EQ(merged.environments.size(), 2U);
  EXPECT_EQ(merged.environment, merged.environments.front());
  EXPECT_EQ(merged.run.complete, true);
  EXPECT_EQ(merged.run.start, time_text(1));
  EXPECT_EQ(merged.run.end, time_text(42));
  EXPECT_EQ(merged.run.sessions.size(), 2U);
  EXPECT_EQ(merged.run.datasets->size(), 1U) << "the folder is of the machine, the content is the same";
  EXPECT_FALSE(merged.run.shard);
  EXPECT_THAT(invariant_violations(merged), IsEmpty());
}

TEST(Merge, NumbersForksByTimeAndKeepsTheOrderOfAShard) {
  std::vector<MergePart> parts = both();
  // The clock of the second machine was set back before its last fork.
  for (CellReport& cell : parts[1].report.cells)
    for (Fork& fork : cell.forks)
      if (fork.order == 2 * rounds_each - 1) fork.start = time_text(0);
  const Report merged = merge(std::move(parts), {});
  std::vector<const Fork*> forks;
  for (const CellReport& cell : merged.cells)
    for (const Fork& fork : cell.forks) forks.push_back(&fork);
  std::sort(forks.begin(), forks.end(), [](const Fork* a, const Fork* b) { return *a->order < *b->order; });
  for (std::size_t i = 0; i < forks.size(); ++i) EXPECT_EQ(forks[i]->order, static_cast<int>(i));
  EXPECT_EQ(forks.front()->start, time_text(2));
  EXPECT_EQ(forks.back()->start, time_text(0)) << "the last of its shard stays the last";
}

TEST(Merge, AcceptsProgramsThatEachMachineBuilt) {
  std::vector<MergePart> parts = both();
  for (MergePart& part : parts)
    for (CellReport& cell : part.report.cells)
      for (Fork& fork : cell.forks) {
        fork.adapter_digest = "the same";
        fork.program_digest = part.name;
      }
  EXPECT_THAT(invariant_violations(merge(std::move(parts), {})), IsEmpty());
}

TEST(Merge, DoesNotDependOnTheOrderOfItsParts) {
  std::vector<MergePart> reversed = both();
  std::swap(reversed[0], reversed[1]);
  EXPECT_EQ(to_json(merge(both(), {})), to_json(merge(std::move(reversed), {})));
}

TEST(Merge, MarksTheCellsOfAMissingShard) {
  const Report merged = merge({{"b.json", shard_report(2)}}, {});
  EXPECT_FALSE(merged.run.complete);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(merged.cells[i].status, Status::interrupted);
    EXPECT_EQ(merged.cells[i].reason_code, ReasonCode::shard_missing);
    EXPECT_THAT(merged.cells[i].reason, HasSubstr("shard 1 of 2"));
    EXPECT_FALSE(merged.cells[i].environment);
  }
  EXPECT_EQ(merged.cells[2].status, Status::ok);
  EXPECT_THAT(invariant_violations(merged), IsEmpty());
}

TEST(Merge, KeepsWhatAKilledShardHas) {
  std::vector<MergePart> parts = both();
  Report& killed = parts[1].report;
  killed.run.end.reset();
  killed.run.complete = false;
  CellReport& cell = killed.cells[3];
  end_with(cell, ReasonCode::not_reached, "not reached");
  cell.forks.clear();
  cell.metrics.clear();
  cell.equivalence = {.reason = "not reached"};
  const Report merged = merge(std::move(parts), {});
  EXPECT_FALSE(merged.run.complete);
  EXPECT_FALSE(merged.run.end);
  EXPECT_EQ(merged.cells[2].forks.size(), static_cast<std::size_t>(rounds_each));
  EXPECT_EQ(merged.cells[3].reason_code, ReasonCode::not_reached);
}

TEST(Merge, NeverPairsRoundsOfTwoMachines) {
  std::vector<MergePart> parts = both();
  const std::string other = parts[0].report.cells[0].id;
  for (MergePart& part : parts)
    part.report.cells[2].published.push_back(
        {.metric = "step_time", .value = 0.5, .unit = "1", .to = other, .source = "S"});
  const Report merged = merge(std::move(parts), {});
  EXPECT_FALSE(time_ratio(merged.cells[2], merged.cells[0]));
  EXPECT_FALSE(metric_ratio(merged.cells[2], merged.cells[0], "host_peak_rss"));
  const auto paired = time_ratio(merged.cells[1], merged.cells[0]);
  ASSERT_TRUE(paired);
  EXPECT_EQ(paired->n, rounds_each) << "of one machine";
  const Analysis all = analyze(merged);
  const AnalyzedPublished& published = all.cells[2].published.front();
  ASSERT_TRUE(published.measured);
  EXPECT_EQ(published.measured->n, 0) << "the ratio of the two values, without an interval";
  EXPECT_DOUBLE_EQ(published.measured->value, 0.5);
  // The same two cells of one machine are paired.
  Report whole = test::sample_report(rounds_each);
  whole.cells = all_cells();
  EXPECT_EQ(time_ratio(whole.cells[2], whole.cells[0])->n, rounds_each);
}

TEST(Merge, HasTheGroupsAndRatiosOfTheUncutRun) {
  Report whole = test::sample_report(rounds_each);
  whole.cells = all_cells();
  const Report merged = merge(both(), {});
  const Analysis a = analyze(whole), b = analyze(merged);
  ASSERT_EQ(a.groups.size(), b.groups.size());
  for (std::size_t i = 0; i < a.groups.size(); ++i) {
    EXPECT_EQ(a.groups[i].title, b.groups[i].title);
    EXPECT_EQ(a.groups[i].in_rank, b.groups[i].in_rank);
    EXPECT_EQ(a.groups[i].baselines, b.groups[i].baselines);
    EXPECT_EQ(a.groups[i].rounds, b.groups[i].rounds);
  }
  for (std::size_t i = 0; i < a.cells.size(); ++i) {
    ASSERT_TRUE(a.cells[i].ratio && b.cells[i].ratio);
    EXPECT_DOUBLE_EQ(a.cells[i].ratio->value, b.cells[i].ratio->value);
    EXPECT_EQ(a.cells[i].ratio->lower, b.cells[i].ratio->lower);
    EXPECT_EQ(a.cells[i].rank, b.cells[i].rank);
  }
}

TEST(Merge, IsReadBackFromItsText) {
  const Report merged = merge(both(), {"assay", "merge"});
  const std::string text = report_text(merged);
  EXPECT_EQ(report_text(parse_report(text, "r.json")), text);
  EXPECT_EQ(to_json(merged)["schema_minor"], 2);
  EXPECT_EQ(to_json(merged)["cells"][3]["environment"], 1);
}

TEST(Merge, LeavesReportsOfOneMachineAsTheyWere) {
  const nlohmann::json one = to_json(test::sample_report(rounds_each));
  EXPECT_EQ(one["schema_minor"], 1);
  EXPECT_FALSE(one.contains("environments"));
  EXPECT_FALSE(one["cells"][0].contains("environment"));
}

TEST(Report, HasTheLowestMinorVersionWithItsFields) {
  Report report = test::sample_report(rounds_each);
  Fork& fork = report.cells.at(0).forks.at(0);
  fork.blocks.at(0).enqueue_ns = 1;
  EXPECT_EQ(to_json(report)["schema_minor"], 3);
  fork.examined = true;
  EXPECT_EQ(to_json(report)["schema_minor"], 4);
  fork.blocks.at(0).minor_faults = 0;
  EXPECT_EQ(to_json(report)["schema_minor"], 5);
  fork.placement.emplace();
  EXPECT_EQ(to_json(report)["schema_minor"], 6);
  fork.ranks.resize(2);
  EXPECT_EQ(to_json(report)["schema_minor"], 7);
  fork.ranks[1].exchange.emplace();
  EXPECT_EQ(to_json(report)["schema_minor"], 8);
  fork.ranks[1].exchange.reset();
  fork.loopback_bytes = 0;
  EXPECT_EQ(to_json(report)["schema_minor"], 8);
  fork.ranks[1].disturbance = {.processors = 1, .waited_ns = 0};
  EXPECT_EQ(to_json(report)["schema_minor"], 9);
  fork.ranks[1].disturbance.reset();
  fork.disturbance = {.processors = 1, .waited_ns = 0};
  EXPECT_EQ(to_json(report)["schema_minor"], 9);
  fork.adapter_digest = "ab";
  EXPECT_EQ(to_json(report)["schema_minor"], 10);
  Report under_test = report;
  under_test.cells[0].libraries[0].under_test = true;
  EXPECT_EQ(to_json(under_test)["schema_minor"], 11);
  fork.disturbance->seen_ns = 0;
  EXPECT_EQ(to_json(report)["schema_minor"], 11);
  fork.blocks.at(0).accuracy = 0.5;
  EXPECT_EQ(to_json(report)["schema_minor"], 12);
  report.cells[0].kind = BackendKind::runtime;
  EXPECT_EQ(to_json(report)["schema_minor"], report_schema_minor);

  Report unfinished = test::sample_report(rounds_each);
  unfinished.cells.at(0).forks = {Fork{.host_start_rss = 1}};
  EXPECT_EQ(to_json(unfinished)["schema_minor"], 5) << "without a block";
}

TEST(Analysis, LeavesOutTheCellsOfOtherShards) {
  const Report report = shard_report(2);
  const Analysis all = analyze(report);
  ASSERT_EQ(all.cells.size(), 2U);
  EXPECT_EQ(all.report_cell(0).id, report.cells[2].id);
  EXPECT_THAT(invariant_violations(report), IsEmpty()) << "though it is complete with interrupted cells";
}

struct Refused {
  const char* name;
  MergeRefusal code;
  std::function<void(std::vector<MergePart>&)> spoil;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class MergeOf : public ::testing::TestWithParam<Refused> {};

TEST_P(MergeOf, IsRefusedByCode) {
  std::vector<MergePart> parts = both();
  GetParam().spoil(parts);
  try {
    merge(std::move(parts), {});
    FAIL() << "merged";
  } catch (const MergeError& error) {
    EXPECT_EQ(to_string(error.code()), to_string(GetParam().code)) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("[merge] {}: ", to_string(GetParam().code))));
  }
}

RunRecord& run_of(std::vector<MergePart>& parts) { return parts[1].report.run; }

INSTANTIATE_TEST_SUITE_P(
    Each, MergeOf,
    ::testing::Values(
        Refused{"a_whole_run", MergeRefusal::not_a_shard, [](auto& parts) { run_of(parts).shard.reset(); }},
        Refused{"a_shard_beyond_the_last", MergeRefusal::not_a_shard,
                [](auto& parts) { run_of(parts).shard->index = 3; }},
        Refused{"a_merged_report", MergeRefusal::already_merged,
                [](auto& parts) { parts[1].report.environments = {parts[1].report.environment}; }},
        Refused{"an_older_schema", MergeRefusal::other_schema,
                [](auto& parts) { parts[1].report.schema = first_report_schema; }},
        Refused{"another_commit", MergeRefusal::other_build,
                [](auto& parts) { run_of(parts).commit = "abd"; }},
        Refused{"local_changes", MergeRefusal::other_build, [](auto& parts) { run_of(parts).dirty = true; }},
        Refused{"another_compiler", MergeRefusal::other_build,
                [](auto& parts) { run_of(parts).build.emplace().compiler = "another"; }},
        Refused{"another_config", MergeRefusal::other_config,
                [](auto& parts) { run_of(parts).config["forks"] = 7; }},
        Refused{"another_cut", MergeRefusal::other_shards,
                [](auto& parts) { run_of(parts).shard->count = 3; }},
        Refused{"a_cell_less", MergeRefusal::other_cells,
                [](auto& parts) { parts[1].report.cells.pop_back(); }},
        Refused{"another_cell", MergeRefusal::other_cells,
                [](auto& parts) { parts[1].report.cells[0].id += "x"; }},
        Refused{"one_report_twice", MergeRefusal::duplicate_forks, [](auto& parts) { parts[1] = parts[0]; }},
        Refused{"one_shard_measured_twice", MergeRefusal::overlapping_cells,
                [](auto& parts) {
                  parts[1] = parts[0];
                  for (CellReport& cell : parts[1].report.cells)
                    for (Fork& fork : cell.forks) fork.start = time_text(59);
                }},
        Refused{"another_library", MergeRefusal::other_libraries,
                [](auto& parts) { parts[1].report.cells[2].libraries[0].version = "1.1"; }},
        Refused{"another_backend", MergeRefusal::other_libraries,
                [](auto& parts) { parts[1].report.cells[3].backend_version = "1.1"; }},
        Refused{"other_scripts_of_a_backend", MergeRefusal::other_libraries,
                [](auto& parts) {
                  for (auto& part : parts)
                    for (CellReport& cell : part.report.cells)
                      for (Fork& fork : cell.forks) fork.adapter_digest = part.name;
                }},
        Refused{"other_weights", MergeRefusal::other_data,
                [](auto& parts) {
                  for (auto& part : parts) part.report.run.weights.emplace().sha256 = part.name;
                }},
        Refused{"another_content_of_a_data_set", MergeRefusal::other_data,
                [](auto& parts) { run_of(parts).datasets->at(0).checksum = "cd"; }},
        Refused{"another_content_in_another_size", MergeRefusal::other_data,
                [](auto& parts) {
                  for (auto& part : parts) part.report.run.datasets->at(0).checksum_of = "contents";
                  run_of(parts).datasets->at(0).sample_shape = {1, 14, 14};
                  run_of(parts).datasets->at(0).checksum = "cd";
                }},
        Refused{"another_seed_of_a_round", MergeRefusal::contradiction,
                [](auto& parts) { parts[1].report.cells[2].forks[1].seed = 7; }}),
    [](const auto& refused) { return refused.param.name; });

TEST(MergeRefusals, AreAllInTheReference) {
  const std::string table = merge_refusal_reference();
  for (const auto& word : words<MergeRefusal>)
    EXPECT_THAT(table, HasSubstr(fmt::format("| `{}` |", word.text)));
}

TEST(MachineFingerprint, OfAMergedReportIsThatOfLikeMachines) {
  Report report = merge(both(), {});
  EXPECT_FALSE(shared_fingerprint(report)) << "the number of processors is not known";
  for (MachineRecord& machine : report.environments) machine.cpu.allowed = 4;
  EXPECT_EQ(shared_fingerprint(report), machine_fingerprint(report.environments[0]));
  report.environments[1].cpu.model = "another processor";
  EXPECT_FALSE(shared_fingerprint(report));
}

TEST(EnvironmentDifferences, OfMergedReportsAreThoseOfTheCells) {
  const Report base = merge(both(), {});
  Report current = base;
  EXPECT_THAT(environment_differences(base, current), IsEmpty());
  current.environments[1].cpu.model = "another processor";
  const auto found = environment_differences(base, current);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].hard);
  EXPECT_EQ(found[0].current, "another processor");
  // The cells of the other machine are the only ones that are compared.
  current.cells.resize(2);
  EXPECT_THAT(environment_differences(base, current), IsEmpty());
}

}  // namespace
}  // namespace assay
