#include "tests/stand_in/machine.hpp"

#include <charconv>
#include <stdexcept>

#include "harness/core/paths.hpp"

namespace assay::stand_in {

Machine& machine() {
  static Machine* const only = new Machine;
  return *only;
}

void begin(const Conditions& conditions) {
  if (const std::string rest = held(); !rest.empty())
    throw std::logic_error("[stand-in] still held: " + rest);
  Machine& m = machine();
  m.conditions = conditions;
  m.chance.seed(conditions.seed);
  m.faults.clear();
  m.allocations = m.plans = 0;
  m.microseconds = 0;
}

Conditions conditions_of_environment() {
  Conditions conditions;
  const std::string order = environment_text("ASSAY_STAND_IN_ORDER");
  if (order.empty()) return conditions;
  if (order == "at_once") {
    conditions.order = Order::at_once;
  } else if (order == "others_last") {
    conditions.order = Order::others_last;
  } else if (order == "others_first") {
    conditions.order = Order::others_first;
  } else if (std::from_chars(order.data(), order.data() + order.size(), conditions.seed).ec != std::errc{}) {
    throw std::invalid_argument("ASSAY_STAND_IN_ORDER=" + order +
                                ": must be at_once, others_last, others_first or a number");
  }
  return conditions;
}

std::int64_t allocations() { return machine().allocations; }

std::string held() {
  std::string text;
  for (const auto& [kind, count] : machine().held) {
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + kind + ": " + std::to_string(count);
  }
  return text;
}

std::vector<std::string> take_faults() {
  inspect_memory();
  std::vector<std::string> texts;
  for (const auto& [what, times] : machine().faults)
    texts.push_back(times == 1 ? what : what + ", " + std::to_string(times) + " times");
  machine().faults.clear();
  return texts;
}

void fault(const std::string& what) { ++machine().faults[what]; }

bool find_memory() {
  Machine& m = machine();
  return m.allocations++ != m.conditions.fail_at;
}

void hold(const char* kind, std::int64_t change) { machine().held[kind] += change; }

}  // namespace assay::stand_in
