#include "harness/protocol/disturbance.hpp"

namespace assay {

std::optional<Disturbance> disturbance_between(const ProcessorTimes& before, const ProcessorTimes& after,
                                               std::int64_t window_ns, std::int64_t own_ns) {
  if (after.count == 0 || before.count != after.count) return std::nullopt;
  const std::int64_t idle_ns = after.idle_ns - before.idle_ns, steal_ns = after.steal_ns - before.steal_ns;
  return Disturbance{.processors = after.count,
                     .window_ns = window_ns,
                     .own_ns = own_ns,
                     .others_ns = after.count * window_ns - idle_ns - steal_ns - own_ns,
                     .steal_ns = steal_ns,
                     .waited_ns = {},
                     .seen_ns = {}};
}

}  // namespace assay
