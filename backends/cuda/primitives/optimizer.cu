// SGD, RMSprop and Adam: no library has them. The plainest kernel, one launch for each tensor.
#include "backends/cuda/optimizer_groups.hpp"
#include "backends/cuda/primitives/ops.hpp"

namespace assay::cuda::primitives {
namespace {

template <typename Rule>
struct Update {
  Rule rule;
  const float* schedule;
  GroupOperands tensor;
  ASSAY_HD void operator()(std::int64_t i) const { tensor.update(rule.at(schedule[0], schedule[1]), i); }
};

template <typename Rule>
Lowered lower_plain_update(const Request& request) {
  const OptimizerGroups groups(request);
  Lowered lowered = groups.draft(request);
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [stream, groups, rule = Rule(request.node.attributes)](const Operands& at) {
        for (std::size_t g = 0; g < groups.count(); ++g) {
          const GroupOperands tensor = groups.at(at, g);
          for_each(stream, tensor.elements, Update<Rule>{rule, at.in<float>(0), tensor});
        }
      },
      "own:tensor");
  return lowered;
}

}  // namespace

std::span<const OpEntry> optimizer_ops() {
  static constexpr std::array entries{OpEntry{"sgd", lower_plain_update<SgdRule>},
                                      OpEntry{"rmsprop", lower_plain_update<RmspropRule>},
                                      OpEntry{"adam", lower_plain_update<AdamRule>}};
  return entries;
}

}  // namespace assay::cuda::primitives
