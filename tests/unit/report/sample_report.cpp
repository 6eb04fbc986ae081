#include "tests/unit/report/sample_report.hpp"

#include <algorithm>
#include <cmath>

#include "harness/report/metrics.hpp"

namespace assay::test {
namespace {

Metric metric(std::vector<double> values, std::string unit, Hint hint) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  Metric out{.value = 0.5 * (values[(n - 1) / 2] + values[n / 2]),
             .unit = std::move(unit),
             .n = static_cast<int>(n),
             .hint = hint};
  if (n == 6) {  // all six: 1 - 2 / 2^6
    out.lower = values.front();
    out.upper = values.back();
    out.confidence = 0.96875;
  }
  return out;
}

Fork sample_fork(int round, double step_seconds) {
  Fork fork{.round = round, .seed = static_cast<std::uint64_t>(42 + round), .status = Status::ok};
  fork.compile_seconds = 0.5 + 0.01 * round;
  std::int64_t now = 1'000'000'000LL * (round + 1);
  for (int i = 0; i < 4; ++i) {
    Block block{.kind = i == 0 ? BlockKind::warm_up : BlockKind::timed, .steps = 50, .begin_ns = now};
    now += std::llround(50e9 * step_seconds);
    block.end_ns = now;
    block.wait_ns = 1000;
    block.cpu_ns = 2 * (block.end_ns - block.begin_ns);
    block.loss = 2.3 - 0.1 * i;
    now += 1000;
    fork.blocks.push_back(block);
  }
  fork.evaluations.push_back({.epoch = 0,
                              .split = DataSplit::test,
                              .samples = 1000,
                              .loss = 0.4,
                              .accuracy = 0.875,
                              .seconds = 0.1});
  fork.samples = {{.time_ns = 1, .worker_cpu = 1.9, .worker_rss = 90'000'000, .frequency_hz = 2.5e9},
                  {.time_ns = 2, .worker_cpu = 2.0, .worker_rss = 91'000'000, .frequency_hz = 2.5e9}};
  fork.host_peak_rss = 91'000'000;
  fork.memory = {{"planned_arena", 4'000'000}};
  fork.settings = {{"threads", "2"}};
  fork.parameters_digest = "ab12";
  return fork;
}

}  // namespace

CellReport sample_cell(const std::string& backend, const std::string& mode, double step_seconds, int forks) {
  CellReport cell;
  cell.axes = {.workload = "lenet5",
               .backend = backend,
               .mode = mode,
               .batch = 200,
               .dataset = "fashion-mnist",
               .optimizer = "adam",
               .threads = 2,
               .measure = "steps"};
  cell.id = cell_id(cell.axes);
  cell.kind = backend == "torch" ? BackendKind::framework : BackendKind::bare;
  cell.status = Status::ok;
  cell.reproduce = "assay run --workload lenet5 --backend " + backend + " --mode " + mode;
  cell.backend_version = "1.0";
  cell.libraries = {{.name = backend, .version = "1.0", .path = "/usr/lib/lib" + backend + ".so"}};
  cell.equivalence = {.checked = true, .passed = true, .worst = 0.25};
  cell.equivalence.tensors = {{.name = "check/training/loss",
                               .max_error = 1e-8,
                               .max_bound = 4e-8,
                               .l2_error = 1e-8,
                               .l2_bound = 1e-7,
                               .ratio = 0.25}};
  std::vector<double> times, accuracies, rss;
  for (int round = 0; round < forks; ++round) {
    const double time = step_seconds * (1 + 0.01 * round);
    cell.forks.push_back(sample_fork(round, time));
    times.push_back(time);
    accuracies.push_back(0.875);
    rss.push_back(91'000'000);
  }
  if (forks == 0) return cell;
  cell.metrics["step_time"] = metric(times, "s", Hint::duration);
  const Metric& step = cell.metrics["step_time"];
  Metric rate = metric(times, "1/s", Hint::rate);
  rate.value = 200 / *step.value;
  if (step.lower) {
    rate.lower = 200 / *step.upper;
    rate.upper = 200 / *step.lower;
  }
  cell.metrics["samples_per_second"] = rate;
  cell.metrics["test_accuracy"] = metric(accuracies, "1", Hint::percentage);
  cell.metrics["host_peak_rss"] = metric(rss, "B", Hint::bytes);
  cell.metrics["gpu_utilisation"] = {
      .unit = "1", .hint = Hint::percentage, .reason = "no GPU on this machine"};
  cell.metrics.merge(metrics_of(cell));  // the others
  return cell;
}

Report sample_report(int forks) {
  Report report;
  report.run = {.command_line = {"assay", "run", "lenet5.json"},
                .config = {{"workload", "lenet5"}},
                .start = "2026-01-02T03:04:05Z",
                .commit = "abc",
                .version = "0.1.0",
                .end = "2026-01-02T03:14:05Z",
                .complete = true};
  report.environment.cpu.model = "a processor";
  report.cells = {sample_cell("onednn", "graph", 0.002, forks),
                  sample_cell("torch", "compile", 0.008, forks)};
  report.cells[1].published.push_back({.metric = "step_time",
                                       .value = 3.0,
                                       .unit = "1",
                                       .to = report.cells[0].id,
                                       .source = "Somebody et al. 2020, table 2"});
  return report;
}

}  // namespace assay::test
