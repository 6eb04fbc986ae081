#include "harness/conductor/print/printers.hpp"

#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/escape.hpp"
#include "harness/core/statistics.hpp"
#include "harness/report/fork_time.hpp"
#include "harness/report/invariants.hpp"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

Json context(const Report& report) {
  const ProcessorRecord& cpu = report.environment.cpu;
  Json out{{"date", report.run.start},  {"host_name", report.environment.host.value_or("")},
           {"executable", "assay"},     {"num_cpus", cpu.logical.value_or(0)},
           {"mhz_per_cpu", 0},          {"caches", Json::array()},
           {"load_avg", Json::array()}, {"library_version", "assay " + report.run.version},
           {"json_schema_version", 1}};
  if (cpu.model) out["cpu"] = *cpu.model;
  if (cpu.governor) out["cpu_scaling_enabled"] = *cpu.governor != "performance";
  // CMake's types without assertions are Release, RelWithDebInfo and MinSizeRel.
  if (const auto& build = report.run.build; build && !build->type.empty())
    out["library_build_type"] = build->type.find("Rel") != build->type.npos ? "release" : "debug";
  return out;
}

struct Repetitions {
  std::vector<double> real, cpu;
};

double deviation(const std::vector<double>& values) {
  return std::sqrt(squares_about_mean(values) / static_cast<double>(values.size() - 1));
}

Json row(const CellReport& cell, std::size_t family, std::string_view type, std::size_t repetitions) {
  return {{"name", cell.id},
          {"family_index", family},
          {"per_family_instance_index", 0},
          {"run_name", cell.id},
          {"run_type", type},
          {"repetitions", repetitions},
          {"threads", cell.axes.threads}};
}

Json aggregate(const CellReport& cell, std::size_t family, std::size_t n, std::string_view name,
               std::string_view unit, double real, double cpu) {
  Json out = row(cell, family, "aggregate", n);
  out["name"] = fmt::format("{}_{}", cell.id, name);
  out["aggregate_name"] = name;
  out["aggregate_unit"] = unit;
  out["iterations"] = n;
  out["real_time"] = real;
  out["cpu_time"] = cpu;
  out["time_unit"] = "ns";
  return out;
}

std::string why_not_timed(const CellReport& cell) {
  if (cell.status != Status::ok) return fmt::format("{}: {}", to_string(cell.status), cell.reason);
  if (cell.flags.empty()) return "no fork was timed";
  return fmt::format("fewer than half of its forks are clean: {}", fmt::join(cell.flags, ", "));
}

void add_cell(Json& rows, const CellReport& cell, std::size_t family) {
  std::vector<ForkTime> times;
  if (cell.status == Status::ok && cell.flags.empty())
    for (const Fork& fork : cell.forks)
      if (const auto time = fork_time(fork); time && counts(fork)) times.push_back(*time);
  const std::size_t n = times.size();
  if (n == 0) {
    Json out = row(cell, family, "iteration", 1);
    out["repetition_index"] = 0;
    out["error_occurred"] = true;
    out["error_message"] = why_not_timed(cell);
    out["iterations"] = 0;
    out["real_time"] = 0.0;
    out["cpu_time"] = 0.0;
    out["time_unit"] = "ns";
    rows.push_back(out);
    return;
  }
  Repetitions all;
  for (std::size_t i = 0; i < n; ++i) {
    all.real.push_back(1e9 * times[i].step_seconds);
    all.cpu.push_back(1e9 * times[i].cpu_seconds);
    Json out = row(cell, family, "iteration", n);
    out["repetition_index"] = i;
    out["iterations"] = times[i].steps;
    out["real_time"] = all.real.back();
    out["cpu_time"] = all.cpu.back();
    out["time_unit"] = "ns";
    out["items_per_second"] = static_cast<double>(cell.axes.batch) / times[i].step_seconds;
    if (cell.work.bytes > 0) out["bytes_per_second"] = cell.work.bytes / times[i].step_seconds;
    if (cell.work.flops > 0) out["FLOP/s"] = cell.work.flops / times[i].step_seconds;  // a user counter
    rows.push_back(out);
  }
  if (n < 2) return;
  const auto ratio = [](double part, double whole) { return whole > 0 ? part / whole : 0.0; };
  const double real = deviation(all.real), cpu = deviation(all.cpu);
  rows.push_back(aggregate(cell, family, n, "mean", "time", mean(all.real), mean(all.cpu)));
  rows.push_back(aggregate(cell, family, n, "median", "time", median(all.real), median(all.cpu)));
  rows.push_back(aggregate(cell, family, n, "stddev", "time", real, cpu));
  rows.push_back(
      aggregate(cell, family, n, "cv", "percentage", ratio(real, mean(all.real)), ratio(cpu, mean(all.cpu))));
}

}  // namespace

std::string gbench_text(const Report& report) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < report.cells.size(); ++i) add_cell(rows, report.cells[i], i);
  const Json out{{"context", context(report)}, {"benchmarks", rows}};
  return with_escaped_controls(out.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace assay
