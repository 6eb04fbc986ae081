#include "workloads/registry.hpp"

namespace assay {

Workload mlp() {
  return {.name = "mlp",
          .description = "784-128-10, ReLU",
          .source = "TensorFlow's tutorial \"Basic classification: Classify images of clothing\" (2018)",
          .dataset = "fashion-mnist",
          .sample_shape = {1, 28, 28},
          .classes = 10,
          .parameters = 784 * 128 + 128 + 128 * 10 + 10,
          .batch = 32,
          .optimizer = {.kind = "adam"},
          .learning_rate = 1e-3,
          .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
            x = b.flatten(x, "flatten");
            x = b.relu(b.linear("fc1", x, 128), "relu1");
            return b.linear("fc2", x, classes);
          }};
}

}  // namespace assay
