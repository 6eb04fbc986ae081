#include "workloads/registry.hpp"

#include <fmt/format.h>

#include <array>

#include "harness/core/error.hpp"

namespace assay {
namespace {

struct Stage {
  int blocks;
  std::int64_t channels;  // inside a block; four times as many leave it
};
constexpr std::array stages{Stage{3, 64}, Stage{4, 128}, Stage{6, 256}, Stage{3, 512}};
constexpr std::int64_t expansion = 4;

ValueId normalised(GraphBuilder& b, const std::string& name, ValueId x, std::int64_t channels,
                   Window window) {
  return b.batch_norm(name + ".norm", b.convolution(name, x, channels, window, false, "he_normal"));
}

// The stride is in the first 1x1 convolution and in the projection.
ValueId block(GraphBuilder& b, const std::string& name, ValueId x, std::int64_t channels, std::int64_t stride,
              bool first) {
  const Window point{}, strided{.kernel = 1, .stride = stride};
  const ValueId shortcut = first ? normalised(b, name + ".shortcut", x, expansion * channels, strided) : x;
  ValueId y = b.relu(normalised(b, name + ".conv1", x, channels, strided), name + ".relu1");
  y = b.relu(normalised(b, name + ".conv2", y, channels, {.kernel = 3, .stride = 1, .padding = 1}),
             name + ".relu2");
  y = normalised(b, name + ".conv3", y, expansion * channels, point);
  return b.relu(b.add(shortcut, y, name + ".sum"), name + ".relu3");
}

ValueId network(GraphBuilder& b, ValueId x, std::int64_t classes) {
  x = b.relu(normalised(b, "conv1", x, 64, {.kernel = 7, .stride = 2, .padding = 3}), "relu1");
  x = b.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1}, "pool1");
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (int i = 1; i <= stages[s].blocks; ++i) {
      const std::int64_t stride = s > 0 && i == 1 ? 2 : 1;
      x = block(b, fmt::format("stage{}.block{}", s + 1, i), x, stages[s].channels, stride, i == 1);
    }
  }
  const Shape shape = b.graph().value(x).type.shape;
  if (shape[2] != shape[3])
    throw GraphError(
        fmt::format("[resnet50] got images that end as {}: they must be square", to_string(shape)));
  x = b.average_pool(x, {.kernel = shape[2], .stride = shape[2]}, "pool2");
  return b.linear("fc", b.flatten(x, "flatten"), classes);
}

}  // namespace

Workload resnet50() {
  return {.name = "resnet50",
          .description =
              "ResNet-50 v1: bottlenecks 3, 4, 6, 3 of 64 to 512 channels (x 4), global average pool, FC; "
              "square images of any size",
          .source =
              "He et al. 2015: the stride in the first 1x1 convolution of a stage and in its projection, "
              "which is normalised; no bias in front of a batch norm; He-normal weights. SGD with momentum "
              "0.9, rate 0.1 and batch 32 are ours (the paper's batch is 256)",
          .dataset = "synthetic",
          .sample_shape = {3, 224, 224},
          .classes = 1000,
          .parameters = 25557032,  // as the paper says
          .batch = 32,
          .small = {.batch = 4, .sample_shape = {3, 32, 32}, .classes = 10},
          .optimizer = {.kind = "sgd"},
          .learning_rate = 0.1,
          .network = network};
}

}  // namespace assay
