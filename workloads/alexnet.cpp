#include "workloads/registry.hpp"

namespace assay {

Workload alexnet() {
  return {
      .name = "alexnet",
      .description =
          "C(64,11,4)-P-C(192,5)-P-C(384,3)-C(256,3)-C(256,3)-P-FC4096-FC4096-FC1000, ReLU, MaxP(3,2)",
      .source =
          "convnet-benchmarks, torch7/imagenet_winners/alexnet.lua (commit 5b96dbc): AlexNet of Krizhevsky's "
          "\"One weird trick\" (2014) without normalisation and dropout. The original has no update, and "
          "Threshold(0, 1e-6) after the linear layers; plain SGD and max(x, 0) are ours",
      .dataset = "synthetic",
      .sample_shape = {3, 224, 224},
      .classes = 1000,
      .parameters = 61100840,
      .batch = 128,
      .small = {.batch = 4, .sample_shape = {3, 63, 63}, .classes = 10},
      .optimizer = {.kind = "sgd", .momentum = 0},
      .learning_rate = 1e-3,
      .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
        const Window pool{.kernel = 3, .stride = 2};
        x = b.relu(b.convolution("conv1", x, 64, {.kernel = 11, .stride = 4, .padding = 2}), "relu1");
        x = b.max_pool(x, pool, "pool1");
        x = b.relu(b.convolution("conv2", x, 192, {.kernel = 5, .padding = 2}), "relu2");
        x = b.max_pool(x, pool, "pool2");
        x = b.relu(b.convolution("conv3", x, 384, {.kernel = 3, .padding = 1}), "relu3");
        x = b.relu(b.convolution("conv4", x, 256, {.kernel = 3, .padding = 1}), "relu4");
        x = b.relu(b.convolution("conv5", x, 256, {.kernel = 3, .padding = 1}), "relu5");
        x = b.max_pool(x, pool, "pool3");
        x = b.flatten(x, "flatten");
        x = b.relu(b.linear("fc1", x, 4096), "relu6");
        x = b.relu(b.linear("fc2", x, 4096), "relu7");
        return b.linear("fc3", x, classes);
      }};
}

}  // namespace assay
