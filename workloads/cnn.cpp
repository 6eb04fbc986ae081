#include "workloads/registry.hpp"

namespace assay {

Workload cnn() {
  return {.name = "cnn",
          .description = "C(64,3)-C(32,3)-Flatten-FC10, ReLU, no padding",
          .source =
              "the small convolutional network of the frameworks' own tutorials: 64 and 32 filters of 3 x 3",
          .dataset = "fashion-mnist",
          .sample_shape = {1, 28, 28},
          .classes = 10,
          .parameters = (64 * 9 + 64) + (32 * 64 * 9 + 32) + (32 * 24 * 24 * 10 + 10),
          .batch = 32,
          .optimizer = {.kind = "adam"},
          .learning_rate = 1e-3,
          .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
            x = b.relu(b.convolution("conv1", x, 64, {.kernel = 3}), "relu1");
            x = b.relu(b.convolution("conv2", x, 32, {.kernel = 3}), "relu2");
            x = b.flatten(x, "flatten");
            return b.linear("fc", x, classes);
          }};
}

}  // namespace assay
