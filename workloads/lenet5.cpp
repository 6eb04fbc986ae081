#include "workloads/registry.hpp"

namespace assay {

Workload lenet5() {
  return {
      .name = "lenet5",
      .description = "C(6,5,1)-AvgP(2,2)-C(16,3,1)-AvgP(2,2)-Flatten-FC120-FC84-FC10, ReLU, no padding",
      .source =
          "Paltenghi et al. 2020 (on MNIST); the widths of the fully connected layers are those of its scripts",
      .dataset = "fashion-mnist",
      .sample_shape = {1, 28, 28},
      .classes = 10,
      .parameters = 156 + 880 + 48120 + 10164 + 850,
      .batch = 200,
      .optimizer = {.kind = "adam"},
      .learning_rate = 1e-3,
      .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
        x = b.relu(b.convolution("conv1", x, 6, {.kernel = 5}), "relu1");
        x = b.average_pool(x, {.kernel = 2, .stride = 2}, "pool1");
        x = b.relu(b.convolution("conv2", x, 16, {.kernel = 3}), "relu2");
        x = b.average_pool(x, {.kernel = 2, .stride = 2}, "pool2");
        x = b.flatten(x, "flatten");
        x = b.relu(b.linear("fc1", x, 120), "relu3");
        x = b.relu(b.linear("fc2", x, 84), "relu4");
        return b.linear("fc3", x, classes);
      }};
}

}  // namespace assay
