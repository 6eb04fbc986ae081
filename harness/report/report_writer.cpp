// Report -> JSON. The reader stands in report_reader.cpp; both follow results/schema/report-1.schema.json.
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/strict_json.hpp"
#include "harness/core/or_null.hpp"
#include "harness/report/report_json.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

Json encode(const Block& block);
Json encode(const Evaluation& evaluation);
Json encode(const MachineSample& sample);
Json encode(const ForeignProcess& process);
Json encode(const Fork& fork);
Json encode(const TensorVerdict& tensor);
Json encode(const Ties& ties);
Json encode(const Published& published);
Json encode(const CellReport& cell);

template <typename T>
Json list(const std::vector<T>& items) {
  Json out = Json::array();
  for (const T& item : items) out.push_back(encode(item));
  return out;
}

Json encode(const Metric& metric) {
  const auto finite = [](const std::optional<double>& value) { return value && std::isfinite(*value); };
  const bool interval = finite(metric.value) && finite(metric.lower) && finite(metric.upper);
  Json out{{"value", finite(metric.value) ? Json(*metric.value) : Json(nullptr)},
           {"unit", metric.unit},
           {"lower", interval ? Json(*metric.lower) : Json(nullptr)},
           {"upper", interval ? Json(*metric.upper) : Json(nullptr)},
           {"confidence", interval ? or_null(metric.confidence) : Json(nullptr)},
           {"n", metric.n},
           {"hint", to_string(metric.hint)}};
  if (!metric.reason.empty())
    out["reason"] = metric.reason;
  else if (metric.value && !finite(metric.value))
    out["reason"] = fmt::format("not finite: {}", *metric.value);
  return out;
}

Json encode(const Block& block) {
  return {{"kind", block.kind},
          {"epoch", block.epoch},
          {"steps", block.steps},
          {"begin_ns", block.begin_ns},
          {"end_ns", block.end_ns},
          {"wait_ns", block.wait_ns},
          {"cpu_ns", block.cpu_ns},
          {"involuntary_switches", block.involuntary_switches},
          {"major_faults", block.major_faults},
          {"steal_ns", block.steal_ns},
          {"loss", or_null(block.loss)}};
}

Json encode(const Evaluation& evaluation) {
  return {{"epoch", evaluation.epoch}, {"split", evaluation.split},       {"samples", evaluation.samples},
          {"loss", evaluation.loss},   {"accuracy", evaluation.accuracy}, {"seconds", evaluation.seconds}};
}

Json encode(const MachineSample& sample) {
  Json out{{"time_ns", sample.time_ns},
           {"worker_cpu", sample.worker_cpu},
           {"worker_rss", sample.worker_rss},
           {"processes", sample.processes},
           {"frequency_hz", sample.frequency_hz}};
  if (!sample.gpu) return out;
  const GpuReading& gpu = *sample.gpu;
  out["gpu_utilisation"] = or_null(gpu.utilisation);
  out["gpu_worker_memory"] = or_null(gpu.worker_memory);
  out["gpu_device_memory"] = or_null(gpu.device_memory);
  out["gpu_sm_clock_hz"] = or_null(gpu.sm_clock_hz);
  out["gpu_memory_clock_hz"] = or_null(gpu.memory_clock_hz);
  out["gpu_power_watts"] = or_null(gpu.power_watts);
  out["gpu_energy_joules"] = or_null(gpu.energy_joules);
  out["gpu_temperature_celsius"] = or_null(gpu.temperature_celsius);
  out["gpu_throttle"] = or_null(gpu.throttle);
  return out;
}

Json encode(const ForeignProcess& process) {
  return {{"pid", process.pid}, {"name", process.name}, {"memory", or_null(process.memory)}};
}

Json encode(const GpuUse& gpu) {
  return {{"model", gpu.model},
          {"uuid", gpu.uuid},
          {"reason", gpu.reason},
          {"missing", gpu.missing},
          {"worker_peak", or_null(gpu.worker_peak)},
          {"device_peak", or_null(gpu.device_peak)},
          {"foreign", list(gpu.foreign)}};
}

Json encode(const Fork& fork) {
  Json out{{"round", fork.round},
           {"seed", fork.seed},
           {"status", to_string(fork.status)},
           {"reason", fork.reason},
           {"log_tail", fork.log_tail},
           {"flags", fork.flags},
           {"compile_seconds", fork.compile_seconds},
           {"blocks", list(fork.blocks)},
           {"evaluations", list(fork.evaluations)},
           {"latencies_ns", fork.latencies_ns},
           {"samples", list(fork.samples)},
           {"host_peak_rss", fork.host_peak_rss},
           {"memory", fork.memory},
           {"settings", fork.settings},
           {"parameters_digest", fork.parameters_digest},
           {"operators", fork.operators}};
  if (!fork.warnings.empty()) out["warnings"] = fork.warnings;
  if (fork.gpu) out["gpu"] = encode(*fork.gpu);
  return out;
}

Json encode(const TensorVerdict& tensor) {
  return {{"name", tensor.name},         {"max_error", tensor.max_error}, {"max_bound", tensor.max_bound},
          {"l2_error", tensor.l2_error}, {"l2_bound", tensor.l2_bound},   {"ratio", tensor.ratio}};
}

Json encode(const Ties& ties) {
  return {{"op", ties.op}, {"tipped", ties.tipped}, {"elements", ties.elements}};
}

Json encode(const Equivalence& equivalence) {
  return {{"checked", equivalence.checked},       {"passed", equivalence.passed},
          {"worst", equivalence.worst},           {"reason", equivalence.reason},
          {"tensors", list(equivalence.tensors)}, {"ties", list(equivalence.ties)}};
}

Json encode(const Published& published) {
  return {{"metric", published.metric}, {"value", or_null(published.value)},
          {"unit", published.unit},     {"to", or_null(published.to)},
          {"source", published.source}, {"statement", published.statement}};
}

Json encode(const CellReport& cell) {
  Json metrics = Json::object();
  for (const auto& [name, metric] : cell.metrics) metrics[name] = encode(metric);
  Json out{{"id", cell.id},
           {"kind", cell.kind},
           {"status", to_string(cell.status)},
           {"reason", cell.reason},
           {"flags", cell.flags},
           {"reproduce", cell.reproduce},
           {"hyper_parameters", cell.hyper_parameters},
           {"backend_version", cell.backend_version},
           {"libraries", cell.libraries},
           {"equivalence", encode(cell.equivalence)},
           {"published", list(cell.published)},
           {"metrics", metrics},
           {"forks", list(cell.forks)}};
  write_axes(out, cell.axes);
  if (cell.work != Work{}) {
    out["work"] = {{"flops", cell.work.flops},
                   {"bytes", cell.work.bytes},
                   {"peak_flops", cell.work.peak_flops},
                   {"copy_bandwidth", cell.work.copy_bandwidth}};
  }
  return out;
}

}  // namespace

Json to_json(const Report& report) {
  const auto object = [](const Json& json) { return json.is_object() ? json : Json::object(); };
  return {{"schema", report_schema},
          {"run", object(report.run)},
          {"environment", object(report.environment)},
          {"cells", list(report.cells)}};
}

std::string report_text(const Report& report) { return strict_json_text(to_json(report)); }

}  // namespace assay
