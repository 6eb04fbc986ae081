#include <fmt/format.h>

#include <array>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "workloads/list.hpp"

namespace assay {

std::span<const Workload> all_workloads() {
  static const std::array workloads{mlp(),         lenet5(),  cnn(),      resnet56(), resnet50(), lstm(),
                                    cifar10_cnn(), alexnet(), overfeat(), vgg_a(),    googlenet()};
  return workloads;
}

const Workload& find_workload(std::string_view name) {
  std::vector<std::string> known;
  for (const Workload& workload : all_workloads()) {
    if (workload.name == name) return workload;
    known.push_back(workload.name);
  }
  throw GraphError(fmt::format("'{}' is no workload{}", name.substr(0, 80), suggestion(name, known)));
}

}  // namespace assay
