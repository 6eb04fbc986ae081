#include "harness/report/invariants.hpp"

#include <cmath>
#include <functional>
#include <utility>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/report/metric_table.hpp"
#include "harness/report/metrics.hpp"
#include "tests/unit/report/sample_report.hpp"

namespace assay {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Spoilt {
  const char* name;
  std::function<void(Report&)> spoil;
  const char* said;
};

void PrintTo(const Spoilt& spoilt, std::ostream* out) { *out << spoilt.name; }

class Invariant : public ::testing::TestWithParam<Spoilt> {};

TEST(Invariants, accept_a_report_that_holds_together) {
  EXPECT_THAT(invariant_violations(test::sample_report(6)), IsEmpty());
  EXPECT_THAT(invariant_violations(test::sample_report(3).cells.empty() ? Report{} : test::sample_report(1)),
              IsEmpty());
  EXPECT_THAT(invariant_violations(Report{}), IsEmpty());
}

TEST_P(Invariant, is_found_when_broken) {
  Report report = test::sample_report(6);
  GetParam().spoil(report);
  EXPECT_THAT(invariant_violations(report), Contains(HasSubstr(GetParam().said)));
}

TEST(Invariants, AllowOnlyADifferenceBelowZero) {
  const auto violations_of = [](const std::string& name) {
    Metric metric = described_metric(name);
    metric.value = -1e-3;
    metric.n = 1;
    Violations violations("cell");
    validate_metric(violations, name, metric);
    return violations.found();
  };
  EXPECT_THAT(violations_of("exposed_exchange_time"), IsEmpty());
  EXPECT_THAT(violations_of("bare_exchange_time"), Contains(HasSubstr("is negative")));
}

Fork& fork(Report& report) { return report.cells[0].forks[2]; }
Metric& step_time(Report& report) { return report.cells[0].metrics["step_time"]; }

INSTANTIATE_TEST_SUITE_P(
    Each, Invariant,
    ::testing::Values(
        Spoilt{"id_of_other_axes", [](Report& r) { r.cells[0].axes.precision = PrecisionKind::bf16; }, "the id does not match its axes"},
        Spoilt{"id_twice", [](Report& r) { r.cells[1] = r.cells[0]; }, "the id is a duplicate"},
        Spoilt{"batch_zero", [](Report& r) { r.cells[0].axes.batch = 0; }, "batch 0"},
        Spoilt{"no_threads", [](Report& r) { r.cells[0].axes.threads = 0; }, "0 threads"},
        Spoilt{"cell_without_reason", [](Report& r) { r.cells[0].status = Status::crashed; }, "is crashed without a reason"},
        Spoilt{"fork_without_reason", [](Report& r) { fork(r).status = Status::timed_out; }, "is timed_out without a reason"},
        Spoilt{"wrong_result_with_metrics",
               [](Report& r) {
                 r.cells[0].status = Status::wrong_result;
                 r.cells[0].reason = "loss differs";
               },
               "a wrong computation must not be timed"},
        Spoilt{"two_adapters",
               [](Report& r) {
                 r.cells[0].forks[0].adapter_digest = "ab";
                 fork(r).adapter_digest = "cd";
               },
               "2 values of adapter_digest"},
        Spoilt{"ok_without_forks", [](Report& r) { r.cells[0].forks.clear(); }, "no fork is ok"},
        Spoilt{"too_many_forks", [](Report& r) { r.cells[0].forks.resize(12'001); }, "12000 are the maximum"},
        Spoilt{"null_without_reason", [](Report& r) { step_time(r).value.reset(); }, "is null without a reason"},
        Spoilt{"value_not_finite", [](Report& r) { step_time(r).value = std::nan(""); }, "is not finite"},
        Spoilt{"half_an_interval", [](Report& r) { step_time(r).upper.reset(); }, "must have all of lower"},
        Spoilt{"bounds_below_six", [](Report& r) { step_time(r).n = 5; }, "below six they are null"},
        Spoilt{"value_above_upper", [](Report& r) { step_time(r).upper = 0.002; }, "is outside of its bounds"},
        Spoilt{"certain", [](Report& r) { step_time(r).confidence = 1; }, "is outside 0 to 1"},
        Spoilt{"n_is_not_clean_forks", [](Report& r) { fork(r).flags = {"disturbed"}; }, "n is 6, but 5 forks count"},
        Spoilt{"negative_time", [](Report& r) { step_time(r).value = -1; }, "is negative"},
        Spoilt{"accuracy_metric_above_one", [](Report& r) { r.cells[0].metrics["test_accuracy"].value = 87.5; }, "is above 1"},
        Spoilt{"no_flag_on_dirty_cell",
               [](Report& r) {
                 for (Fork& f : r.cells[0].forks) f.flags = {"throttled"};
               },
               "but its forks give [throttled]"},
        Spoilt{"published_nothing", [](Report& r) { r.cells[1].published[0].value.reset(); }, "neither a value nor a statement"},
        Spoilt{"passed_unchecked", [](Report& r) { r.cells[0].equivalence.checked = false; }, "was not checked"},
        Spoilt{"passed_above_bound",
               [](Report& r) { r.cells[0].equivalence.worst = r.cells[0].equivalence.tensors[0].ratio = 1.5; },
               "passed with a ratio of 1.5"},
        Spoilt{"passed_with_nan",
               [](Report& r) { r.cells[0].equivalence.tensors[0].ratio = std::nan(""); }, "equivalence passed with a ratio"},
        Spoilt{"failed_without_reason", [](Report& r) { r.cells[0].equivalence.passed = false; }, "did not pass, without a reason"},
        Spoilt{"worst_is_not_worst", [](Report& r) { r.cells[0].equivalence.worst = 0.1; }, "its tensors give 0.25"},
        Spoilt{"tensor_twice",
               [](Report& r) {
                 auto& tensors = r.cells[0].equivalence.tensors;
                 tensors.push_back(tensors[0]);
               },
               "is listed twice"},
        Spoilt{"ok_though_failed",
               [](Report& r) {
                 r.cells[0].equivalence.passed = false;
                 r.cells[0].equivalence.reason = "loss";
               },
               "it should be wrong_result"},
        Spoilt{"wrong_though_passed",
               [](Report& r) {
                 r.cells[0].status = Status::wrong_result;
                 r.cells[0].reason = "loss differs";
               },
               "its equivalence check passed"},
        Spoilt{"round_twice", [](Report& r) { fork(r).round = 1; }, "a second fork of this round"},
        Spoilt{"round_with_two_seeds", [](Report& r) { fork(r).seed = 7; }, "has the seeds"},
        Spoilt{"block_backwards", [](Report& r) { std::swap(fork(r).blocks[0].begin_ns, fork(r).blocks[0].end_ns); }, "ends at"},
        Spoilt{"blocks_overlap", [](Report& r) { fork(r).blocks[1].begin_ns -= 2000; }, "begins before the previous block ends"},
        Spoilt{"wait_longer_than_block", [](Report& r) { fork(r).blocks[0].wait_ns = 1'000'000'000'000; }, "longer than it lasts"},
        Spoilt{"enqueues_longer_than_block", [](Report& r) { fork(r).blocks[0].enqueue_ns = 1'000'000'000'000; }, "longer than it lasts"},
        Spoilt{"negative_page_faults", [](Report& r) { fork(r).blocks[0].minor_faults = -1; }, "negative number of page faults"},
        Spoilt{"negative_enqueue", [](Report& r) { fork(r).blocks[0].enqueue_ns = -1; }, "in a negative time"},
        Spoilt{"negative_wait", [](Report& r) { fork(r).blocks[0].wait_ns = -1; }, "waits a negative time"},
        Spoilt{"block_of_no_steps", [](Report& r) { fork(r).blocks[0].steps = 0; }, "has 0 steps"},
        Spoilt{"warm_up_late", [](Report& r) { fork(r).blocks[3].kind = BlockKind::warm_up; r.cells[0].forks[2].blocks[0].kind = BlockKind::timed; },
               "is a warm-up after a timed block"},
        Spoilt{"accuracy_above_one", [](Report& r) { fork(r).evaluations[0].accuracy = 1.5; }, "is outside 0 to 1"},
        Spoilt{"accuracy_of_no_count", [](Report& r) { fork(r).evaluations[0].accuracy = 0.8755; }, "not a whole number"},
        Spoilt{"negative_loss", [](Report& r) { fork(r).evaluations[0].loss = -0.1; }, "is negative"},
        Spoilt{"session_of_another_run", [](Report& r) { fork(r).session = 0; }, "is of session 0, but the run has 0 sessions"},
        Spoilt{"order_twice", [](Report& r) { fork(r).order = r.cells[1].forks[0].order = 3; }, "two forks have the order 3"},
        Spoilt{"machine_of_no_entry", [](Report& r) { r.cells[0].environment = 0; }, "ran in environment 0, but the report has 0"},
        Spoilt{"first_machine_is_another",
               [](Report& r) {
                 r.environments.emplace_back().cpu.model = "another";
                 for (CellReport& cell : r.cells) cell.environment = 0;
               },
               "its environment is not the first of its environments"},
        Spoilt{"forks_of_no_machine", [](Report& r) { r.environments = {r.environment}; }, "has forks, but no environment"},
        Spoilt{"group_on_two_machines",
               [](Report& r) {
                 r.environments = {r.environment, r.environment};
                 r.cells[0].environment = 0;
                 r.cells[1].environment = 1;
               },
               "a cell that it is compared with in 0"},
        Spoilt{"shard_of_no_cut", [](Report& r) { end_with(r.cells[0], ReasonCode::other_shard, "belongs to shard 2 of 2"); },
               "the run was not cut"},
        Spoilt{"forks_of_another_shard",
               [](Report& r) {
                 r.run.shard = Shard{.index = 1, .count = 2};
                 end_with(r.cells[0], ReasonCode::other_shard, "belongs to shard 2 of 2");
               },
               "belongs to another shard, but has forks"},
        Spoilt{"device_time_of_a_network",
               [](Report& r) { fork(r).device_timed = protocol::DeviceTimed{.steps = 1, .step_seconds = {1e-3}}; },
               "which only a single op on a GPU has"},
        Spoilt{"device_time_without_steps",
               [](Report& r) { fork(r).device_timed = protocol::DeviceTimed{.step_seconds = {1e-3}}; },
               "must have times of its device, or a reason"},
        Spoilt{"no_samples", [](Report& r) { fork(r).evaluations[0].samples = 0; }, "0 samples"},
        Spoilt{"samples_unordered", [](Report& r) { fork(r).samples[0].time_ns = 99; }, "comes after a later one"},
        Spoilt{"negative_latency", [](Report& r) { fork(r).latencies_ns = {1, -1}; }, "a latency of -1 ns"},
        Spoilt{"negative_memory", [](Report& r) { fork(r).memory["planned_arena"] = -4; }, "is -4 bytes"},
        Spoilt{"metric_without_blocks",
               [](Report& r) {
                 for (Fork& f : r.cells[0].forks) f.blocks.clear();
               },
               "metric step_time: value is 0.00205, but the raw numbers of its forks give null"},
        Spoilt{"metric_not_of_its_blocks",
               [](Report& r) {
                 auto& rate = r.cells[0].metrics["samples_per_second"];
                 rate.value = rate.upper = *rate.upper * 1.5;
               },
               "but the raw numbers of its forks give"},
        Spoilt{"accuracy_not_of_its_evaluations", [](Report& r) { r.cells[0].metrics["test_accuracy"] = {.value = 0.9, .unit = "1", .n = 6}; },
               "metric test_accuracy: value is 0.9, but the raw numbers of its forks give 0.875"},
        Spoilt{"narrower_interval",
               [](Report& r) {
                 step_time(r).lower = *step_time(r).value * 0.9999;
                 step_time(r).upper = *step_time(r).value * 1.0001;
               },
               "metric step_time: lower is"},
        Spoilt{"metric_left_out", [](Report& r) { r.cells[0].metrics.erase("samples_per_second"); },
               "metric samples_per_second is missing"},
        Spoilt{"surer_interval", [](Report& r) { step_time(r).confidence = 0.9999; }, "metric step_time: confidence is 0.9999"},
        Spoilt{"another_unit", [](Report& r) { step_time(r).unit = "ms"; }, "the unit is ms, but should be s"},
        Spoilt{"another_hint", [](Report& r) { step_time(r).hint = Hint::rate; }, "the hint is rate, but should be duration"},
        Spoilt{"percentile_of_no_calls",
               [](Report& r) {
                 r.cells[0].metrics["latency_p99"] = described_metric("latency_p99");
                 r.cells[0].metrics["latency_p99"].value = 1e-9;
                 r.cells[0].metrics["latency_p99"].n = 6;
               },
               "metric latency_p99: value is 1e-09, but the raw numbers of its forks give null"},
        Spoilt{"saving_of_another_plan",
               [](Report& r) {
                 for (const auto& [name, value] : {std::pair{"plan_naive", 8.0}, {"plan_co_share", 4.0}, {"plan_saving", 3.0}}) {
                   Metric& metric = r.cells[0].metrics[name] = described_metric(name);
                   metric.value = value;
                   metric.n = 1;
                 }
               },
               "metric plan_saving: value is 3, but plan_naive / plan_co_share is 2"},
        Spoilt{"plan_of_forks",
               [](Report& r) {
                 Metric& metric = r.cells[0].metrics["plan_naive"] = described_metric("plan_naive");
                 metric.value = 8;
                 metric.n = 6;
               },
               "n is 6, but a plan is made once"},
        Spoilt{"ok_with_a_failed_fork",
               [](Report& r) {
                 fork(r).status = Status::crashed;
                 fork(r).reason = "signal 11";
               },
               "is ok, but the fork of round 2 is crashed"},
        Spoilt{"disturbed_and_counted", [](Report& r) { fork(r).flags = {"disturbed"}; }, "metric step_time: n is 6, but 5 forks count"},
        Spoilt{"flag_of_no_reading", [](Report& r) {
                 fork(r).placement = {.before = {.slowdown = 1, .hop_ns = 50}, .after = {.slowdown = 1, .hop_ns = 50}};
                 fork(r).flags = {"placement"};
               }, "the flags of round 2 are [placement], but its rounds give []"},
        Spoilt{"ratio_of_other_errors",
               [](Report& r) { r.cells[0].equivalence.tensors[0].max_error = 4e-7; }, "the ratio is 0.25, but its errors and bounds give 10"},
        Spoilt{"faster_than_the_machine",
               [](Report& r) {
                 r.cells[0].work = {.flops = 4e8, .bytes = 0, .peak_flops = 3e10, .copy_bandwidth = 1e10};
                 r.cells[0].metrics["flops_per_second"] = {.value = 2e11, .unit = "1/s", .n = 6, .hint = Hint::rate};
               },
               "above the measured peak"},
        Spoilt{"ends_before_it_starts", [](Report& r) { r.run.end = "2025-01-01T00:00:00Z"; }, "before it starts"},
        Spoilt{"complete_without_end", [](Report& r) { r.run.end.reset(); }, "complete but has no end"},
        Spoilt{"complete_with_interrupted",
               [](Report& r) {
                 r.cells[0].status = Status::interrupted;
                 r.cells[0].reason = "Ctrl-C";
               },
               "is interrupted"}),
    [](const auto& spoilt) { return std::string(spoilt.param.name); });

// A report whose cells have every metric that steps give.
TEST(Invariants, DeriveEveryMetricAgain) {
  Report report = test::sample_report(6);
  CellReport& cell = report.cells[0];
  cell.metrics = metrics_of(cell);
  EXPECT_THAT(invariant_violations(report), IsEmpty());
  int changed = 0;
  for (auto& [name, metric] : cell.metrics) {
    if (!metric.value) continue;
    const Metric was = metric;
    metric.value = *was.value * (1 + 1e-6) + 1e-12;
    EXPECT_THAT(invariant_violations(report), Contains(HasSubstr("metric " + name + ": value is"))) << name;
    metric = was;
    metric.value.reset();
    metric.lower = metric.upper = metric.confidence = std::nullopt;
    metric.reason = "lost";
    EXPECT_THAT(invariant_violations(report), Contains(HasSubstr("metric " + name + ": value is null")))
        << name;
    metric = was;
    ++changed;
  }
  EXPECT_GT(changed, 8);
}

TEST(Invariants, DoNotDeriveByNewerRules) {
  Report report = test::sample_report(6);
  step_time(report).unit = "fortnight";
  EXPECT_FALSE(invariant_violations(report).empty());
  report.rules = derivation_rules + 1;
  EXPECT_THAT(invariant_violations(report), IsEmpty());
}

TEST(Invariants, name_the_cell_and_the_fork) {
  Report report = test::sample_report(6);
  fork(report).blocks[0].steps = 0;
  EXPECT_THAT(invariant_violations(report),
              Contains("lenet5/onednn/cpu/graph/train/fp32/native/b200/fashion-mnist/resident/adam/t2/steps: "
                       "fork of round 2: block 0: has 0 steps"));
}

}  // namespace
}  // namespace assay
