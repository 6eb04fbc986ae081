#include "harness/batch/results.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "harness/core/io/atomic_file.hpp"

namespace assay {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson number(double value) { return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr); }

OrderedJson to_json(const TimedBlock& b) {
  return {{"kind", b.kind},
          {"epoch", b.epoch},
          {"steps", b.steps},
          {"begin_ns", b.begin_ns},
          {"end_ns", b.end_ns},
          {"wait_ns", b.wait_ns},
          {"cpu_ns", b.cpu_ns},
          {"involuntary_switches", b.involuntary_switches},
          {"major_faults", b.major_faults},
          {"steal_ns", b.steal_ns},
          {"loss", number(b.loss)}};
}

OrderedJson to_json(const SplitEvaluation& e) {
  return {{"epoch", e.epoch},
          {"split", e.split},
          {"samples", e.samples},
          {"loss", number(e.loss)},
          {"accuracy", number(e.accuracy)},
          {"seconds", number(e.seconds)}};
}

}  // namespace

void write_results(const std::filesystem::path& path, const ClockResults& results) {
  OrderedJson json;
  json["schema"] = "assay-clock/1";
  json["complete"] = results.complete;
  json["clock"] = {{"name", results.clock.name},
                   {"resolution_ns", results.clock.resolution_ns},
                   {"cost_ns", number(results.clock.cost_ns)}};
  const LoaderRequest& loader = results.loader;
  json["loader"] = {{"kind", to_string(loader.kind)}, {"workers", loader.workers},
                    {"prefetch", loader.prefetch},    {"resident_batches", loader.resident_batches},
                    {"batches", results.batches},     {"wait_ns", results.wait_ns}};
  json["warm_up"] = {{"steps", results.warm_up_steps},
                     {"seconds", number(results.warm_up_seconds)},
                     {"steady", results.steady ? OrderedJson(*results.steady) : OrderedJson(nullptr)}};
  json["blocks"] = OrderedJson::array();
  for (const TimedBlock& block : results.blocks) json["blocks"].push_back(to_json(block));
  json["evaluations"] = OrderedJson::array();
  for (const SplitEvaluation& evaluation : results.evaluations)
    json["evaluations"].push_back(to_json(evaluation));
  json["latencies_ns"] = results.latencies_ns;
  json["latencies_seen"] = results.latencies_seen;
  write_atomically(path, json.dump() + "\n", false);
}

}  // namespace assay
