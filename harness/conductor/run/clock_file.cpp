#include "harness/conductor/run/clock_file.hpp"

#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "harness/report/json_reader.hpp"

namespace assay {

namespace {

// In this file null is what was not finite.
double or_nan(const JsonReader& item, const char* key) {
  std::optional<double> value;
  item.read(key, value);
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

void read_clock(const std::filesystem::path& file, bool has_loss, Fork& fork) {
  const StrictDocument document(read_json_text(file), file.filename().string());
  const JsonReader clock(document);
  clock.field("blocks").each([&](const JsonReader& item) {
    Block block;
    item.read("kind", block.kind);
    item.read("epoch", block.epoch);
    item.read("steps", block.steps);
    item.read("begin_ns", block.begin_ns);
    item.read("end_ns", block.end_ns);
    item.read("wait_ns", block.wait_ns);
    item.read("cpu_ns", block.cpu_ns);
    item.read("involuntary_switches", block.involuntary_switches);
    item.read("major_faults", block.major_faults);
    item.read("steal_ns", block.steal_ns);
    if (has_loss) block.loss = or_nan(item, "loss");
    fork.blocks.push_back(std::move(block));
  });
  clock.field("evaluations").each([&](const JsonReader& item) {
    Evaluation evaluation;
    item.read("epoch", evaluation.epoch);
    item.read("split", evaluation.split);
    item.read("samples", evaluation.samples);
    evaluation.loss = or_nan(item, "loss");
    item.read("accuracy", evaluation.accuracy);
    item.read("seconds", evaluation.seconds);
    fork.evaluations.push_back(std::move(evaluation));
  });
  clock.read("latencies_ns", fork.latencies_ns);
  // null: too few steps to tell.
  if (const JsonReader warm_up = clock.field("warm_up");
      warm_up.has("steady") && warm_up.field("steady").json() == false)
    fork.flags.emplace_back("not_steady");
}

}  // namespace assay
