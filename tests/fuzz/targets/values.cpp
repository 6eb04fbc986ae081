// Values as a command line or a config has them: the first line names an option, the rest is its value.
#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/conductor/compare/ab_sides.hpp"
#include "harness/conductor/config/config.hpp"
#include "harness/conductor/config/rate_schedule.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/conductor/data/epoch_plan.hpp"
#include "harness/core/error.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "workloads/ops/op_workload.hpp"

namespace assay::fuzz::of_values {
namespace {

template <typename Read>
void try_to(Read read) {
  try {
    read();
  } catch (const Error&) {
  }
}

void read_option(const std::string& name, const std::string& value) {
  OptionValues values;
  set_option(values, require_option(name, "fuzz"), value, "fuzz");
  const RunConfig config = config_of(values);
  const nlohmann::json written = to_json(config);
  try_to([&] { settings_of(config); });
  require(to_json(config_from_json(written, "again")) == written, "what is written again is the same");
}

void read_schedule(const std::string& value) {
  const RateSchedule schedule = RateSchedule::parse(value);
  require(RateSchedule::parse(schedule.text()).text() == schedule.text(), "a schedule has one spelling");
  const RateSchedule whole = schedule.over(10);
  for (const std::int64_t step :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{99}, std::int64_t{100'000'000}}) {
    const double rate = whole.rate(0.1, step, 10);
    require(!std::isnan(rate) && rate >= 0, "a rate is not negative");
  }
}

void read_augmentation(const std::string& value) {
  const Augmentation augmentation = Augmentation::parse(value);
  require(Augmentation::parse(augmentation.text()).text() == augmentation.text(),
          "an augmentation has one spelling");
}

void read_duration(const std::string& value) {
  const double seconds = duration_of({{"max-time", {value}}}, "max-time");
  require(value.empty() ? seconds == 0 : seconds > 0 && seconds < 1e11, "a time is a number of seconds");
}

void read_share(const std::string& value) {
  const double share = share_of(value, "--threshold", 10);
  require(share > 0 && share < 10, "a share is within its limits");
}

void read_side(const std::string& value) {
  const AbSide side = parse_side(value, "--a");
  for (const auto& [name, given] : side.values)
    require(given.size() == 1, "a side has one value of an option");
}

void read_size(const OpWorkload& op, const std::string& value) {
  const std::string spelling = op.canonical(value);
  require(op.canonical(spelling) == spelling, "a size has one spelling");
}

const Registration here("values", [](Input input) {
  const std::string text(text_of(input));
  const std::size_t end = text.find('\n');
  const std::string name = text.substr(0, end), value = end == text.npos ? "" : text.substr(end + 1);
  try_to([&] { read_option(name, value); });
  try_to([&] { read_schedule(value); });
  try_to([&] { read_augmentation(value); });
  try_to([&] { read_duration(value); });
  try_to([&] { read_share(value); });
  try_to([&] { read_side(value); });
  for (const OpWorkload& op : all_op_workloads()) try_to([&] { read_size(op, value); });
});

}  // namespace
}  // namespace assay::fuzz::of_values
