#include "workloads/registry.hpp"

namespace assay {

Workload overfeat() {
  return {.name = "overfeat",
          .description =
              "C(96,11,4)-P-C(256,5)-P-C(512,3)-C(1024,3)-C(1024,3)-P-FC3072-FC4096-FC1000, ReLU, MaxP(2,2)",
          .source =
              "convnet-benchmarks, torch7/imagenet_winners/overfeat.lua (commit 5b96dbc): the fast model of "
              "Sermanet et al. 2013 without dropout. The original has no update, and Threshold(0, 1e-6) "
              "after the linear layers; plain SGD and max(x, 0) are ours",
          .dataset = "synthetic",
          .sample_shape = {3, 231, 231},
          .classes = 1000,
          .parameters = 145920872,
          .batch = 128,
          .small = {.batch = 4, .sample_shape = {3, 75, 75}, .classes = 10},
          .optimizer = {.kind = "sgd", .momentum = 0},
          .learning_rate = 1e-3,
          .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
            const Window pool{.kernel = 2, .stride = 2};
            x = b.relu(b.convolution("conv1", x, 96, {.kernel = 11, .stride = 4}), "relu1");
            x = b.max_pool(x, pool, "pool1");
            x = b.relu(b.convolution("conv2", x, 256, {.kernel = 5}), "relu2");
            x = b.max_pool(x, pool, "pool2");
            x = b.relu(b.convolution("conv3", x, 512, {.kernel = 3, .padding = 1}), "relu3");
            x = b.relu(b.convolution("conv4", x, 1024, {.kernel = 3, .padding = 1}), "relu4");
            x = b.relu(b.convolution("conv5", x, 1024, {.kernel = 3, .padding = 1}), "relu5");
            x = b.max_pool(x, pool, "pool3");
            x = b.flatten(x, "flatten");
            x = b.relu(b.linear("fc1", x, 3072), "relu6");
            x = b.relu(b.linear("fc2", x, 4096), "relu7");
            return b.linear("fc3", x, classes);
          }};
}

}  // namespace assay
