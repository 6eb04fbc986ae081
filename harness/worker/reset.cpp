#include "harness/worker/reset.hpp"

#include <algorithm>
#include <vector>

#include "harness/core/error.hpp"

namespace assay {

void reject_moments(std::span<const HostTensor> state, std::span<const std::string> moments,
                    std::span<const HostTensor> given) {
  for (const HostTensor& tensor : state) {
    const bool is_moment = std::ranges::any_of(
        moments, [&](const std::string& moment) { return tensor.name.ends_with("." + moment); });
    if (!is_moment || std::ranges::find(given, tensor.name, &HostTensor::name) != given.end()) continue;
    const std::vector<double> values = to_doubles(tensor);
    if (std::ranges::any_of(values, [](double value) { return value != 0; }))
      throw Error("[state] set_state() got no moments, but " + tensor.name +
                  " is not zero afterwards: reset what is not named");
  }
}

}  // namespace assay
