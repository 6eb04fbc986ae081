// JSON -> Report.
#include "harness/report/json_reader.hpp"
#include "harness/report/names.hpp"
#include "harness/report/report_json.hpp"

namespace assay {
namespace {

template <typename T, std::size_t N>
T word(const JsonReader& value, const std::array<std::pair<T, std::string_view>, N>& names) {
  for (const auto& [known, name] : names)
    if (value.text() == name) return known;
  value.fail(fmt::format("\"{}\" is not one of the known words", value.text().substr(0, 80)));
}

template <typename T, typename F>
std::vector<T> list(const JsonReader& value, F read_one) {
  std::vector<T> out;
  out.reserve(value.count());
  value.each([&](const JsonReader& item) { out.push_back(read_one(item)); });
  return out;
}

Metric read_metric(const JsonReader& in) {
  Metric metric;
  in.read("value", metric.value);
  in.read("unit", metric.unit);
  in.read("lower", metric.lower);
  in.read("upper", metric.upper);
  in.read("confidence", metric.confidence);
  in.read("n", metric.n);
  metric.hint = word(in.field("hint"), hint_names);
  in.read_optional("reason", metric.reason);
  return metric;
}

Block read_block(const JsonReader& in) {
  Block block;
  in.read("kind", block.kind);
  in.read("epoch", block.epoch);
  in.read("steps", block.steps);
  in.read("begin_ns", block.begin_ns);
  in.read("end_ns", block.end_ns);
  in.read("wait_ns", block.wait_ns);
  in.read("cpu_ns", block.cpu_ns);
  in.read("involuntary_switches", block.involuntary_switches);
  in.read("major_faults", block.major_faults);
  in.read("steal_ns", block.steal_ns);
  in.read("loss", block.loss);
  return block;
}

Evaluation read_evaluation(const JsonReader& in) {
  Evaluation evaluation;
  in.read("epoch", evaluation.epoch);
  in.read("split", evaluation.split);
  in.read("samples", evaluation.samples);
  in.read("loss", evaluation.loss);
  in.read("accuracy", evaluation.accuracy);
  in.read("seconds", evaluation.seconds);
  return evaluation;
}

GpuReading read_gpu(const JsonReader& in) {
  GpuReading gpu;
  const auto read = [&](const char* key, auto& out) {
    if (in.has(key)) in.read(key, out);
  };
  read("gpu_utilisation", gpu.utilisation);
  read("gpu_worker_memory", gpu.worker_memory);
  read("gpu_device_memory", gpu.device_memory);
  read("gpu_sm_clock_hz", gpu.sm_clock_hz);
  read("gpu_memory_clock_hz", gpu.memory_clock_hz);
  read("gpu_power_watts", gpu.power_watts);
  read("gpu_energy_joules", gpu.energy_joules);
  read("gpu_temperature_celsius", gpu.temperature_celsius);
  if (in.has("gpu_throttle") && !in.field("gpu_throttle").json().is_null())
    read("gpu_throttle", gpu.throttle.emplace());
  return gpu;
}

MachineSample read_sample(const JsonReader& in) {
  MachineSample sample;
  in.read("time_ns", sample.time_ns);
  in.read("worker_cpu", sample.worker_cpu);
  in.read("worker_rss", sample.worker_rss);
  if (in.has("processes")) in.read("processes", sample.processes);
  in.read("frequency_hz", sample.frequency_hz);
  if (in.has("gpu_utilisation")) sample.gpu = read_gpu(in);
  return sample;
}

GpuUse read_gpu_use(const JsonReader& in) {
  GpuUse use;
  in.read("model", use.model);
  in.read("uuid", use.uuid);
  in.read("reason", use.reason);
  in.read("missing", use.missing);
  in.read("worker_peak", use.worker_peak);
  in.read("device_peak", use.device_peak);
  use.foreign = list<ForeignProcess>(in.field("foreign"), [](const JsonReader& item) {
    ForeignProcess process;
    item.read("pid", process.pid);
    item.read("name", process.name);
    item.read("memory", process.memory);
    return process;
  });
  return use;
}

Fork read_fork(const JsonReader& in) {
  Fork fork;
  in.read("round", fork.round);
  in.read("seed", fork.seed);
  fork.status = word(in.field("status"), status_names);
  in.read("reason", fork.reason);
  in.read("log_tail", fork.log_tail);
  in.read("flags", fork.flags);
  in.read("compile_seconds", fork.compile_seconds);
  fork.blocks = list<Block>(in.field("blocks"), read_block);
  fork.evaluations = list<Evaluation>(in.field("evaluations"), read_evaluation);
  in.read("latencies_ns", fork.latencies_ns);
  fork.samples = list<MachineSample>(in.field("samples"), read_sample);
  in.read("host_peak_rss", fork.host_peak_rss);
  in.read("memory", fork.memory);
  in.read("settings", fork.settings);
  in.read("parameters_digest", fork.parameters_digest);
  fork.operators = in.field("operators").json();
  if (in.has("warnings")) in.read("warnings", fork.warnings);
  if (in.has("gpu")) fork.gpu = read_gpu_use(in.field("gpu"));
  return fork;
}

TensorVerdict read_tensor(const JsonReader& in) {
  TensorVerdict tensor;
  in.read("name", tensor.name);
  in.read("max_error", tensor.max_error);
  in.read("max_bound", tensor.max_bound);
  in.read("l2_error", tensor.l2_error);
  in.read("l2_bound", tensor.l2_bound);
  in.read("ratio", tensor.ratio);
  return tensor;
}

Ties read_ties(const JsonReader& in) {
  Ties ties;
  in.read("op", ties.op);
  in.read("tipped", ties.tipped);
  in.read("elements", ties.elements);
  return ties;
}

Equivalence read_equivalence(const JsonReader& in) {
  Equivalence equivalence;
  in.read("checked", equivalence.checked);
  in.read("passed", equivalence.passed);
  in.read("worst", equivalence.worst);
  in.read("reason", equivalence.reason);
  equivalence.tensors = list<TensorVerdict>(in.field("tensors"), read_tensor);
  if (in.has("ties")) equivalence.ties = list<Ties>(in.field("ties"), read_ties);
  return equivalence;
}

Published read_published(const JsonReader& in) {
  Published published;
  in.read("metric", published.metric);
  in.read("value", published.value);
  in.read("unit", published.unit);
  in.read("to", published.to);
  in.read("source", published.source);
  in.read("statement", published.statement);
  return published;
}

Axes read_axes(const JsonReader& in) {
  Axes axes;
  for_each_axis(axes, [&](const char* key, auto& field) { in.read(key, field); });
  for_each_op_axis(axes, [&](const char* key, auto& field) {
    if (in.has(key)) in.read(key, field);
  });
  if (in.has("variant")) in.read("variant", axes.variant);
  return axes;
}

CellReport read_cell(const JsonReader& in) {
  CellReport cell;
  in.read("id", cell.id);
  cell.axes = read_axes(in);
  if (in.has("work")) {
    const JsonReader work = in.field("work");
    work.read("flops", cell.work.flops);
    work.read("bytes", cell.work.bytes);
    work.read("peak_flops", cell.work.peak_flops);
    work.read("copy_bandwidth", cell.work.copy_bandwidth);
  }
  in.read("kind", cell.kind);
  cell.status = word(in.field("status"), status_names);
  in.read("reason", cell.reason);
  in.read("flags", cell.flags);
  in.read("reproduce", cell.reproduce);
  if (in.has("hyper_parameters")) cell.hyper_parameters = in.field("hyper_parameters").json();
  in.read("backend_version", cell.backend_version);
  cell.libraries = in.field("libraries").json();
  cell.equivalence = read_equivalence(in.field("equivalence"));
  cell.published = list<Published>(in.field("published"), read_published);
  in.field("metrics").each_member(
      [&](const std::string& name, const JsonReader& metric) { cell.metrics[name] = read_metric(metric); });
  cell.forks = list<Fork>(in.field("forks"), read_fork);
  return cell;
}

}  // namespace

void require_report_schema(const StrictDocument& document) {
  const auto fail = [&](const std::string& what) {
    throw JsonError(fmt::format("{}: {}", document.where(), what));
  };
  std::string_view schema;
  if (document.root()["schema"].get(schema) != simdjson::SUCCESS)
    fail(fmt::format("not an Assay report: it has no \"schema\": \"{}\"", report_schema));
  if (schema == report_schema) return;
  schema = schema.substr(0, 80);
  if (schema.starts_with("assay-report/"))
    fail(fmt::format("has the schema {}, and this program reads {}: use the Assay that wrote it", schema,
                     report_schema));
  fail(fmt::format("has the schema \"{}\", not \"{}\"", schema, report_schema));
}

Report report_from(const StrictDocument& document) {
  require_report_schema(document);
  const JsonReader in(document);
  Report report;
  report.run = in.field("run").json();
  report.environment = in.field("environment").json();
  report.cells = list<CellReport>(in.field("cells"), read_cell);
  return report;
}

Report parse_report(std::string text, std::string_view where) {
  return report_from(StrictDocument(std::move(text), where));
}

Report read_report(const std::filesystem::path& file) { return report_from(read_strict_document(file)); }

}  // namespace assay
