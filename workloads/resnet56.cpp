#include "workloads/registry.hpp"

#include <fmt/format.h>

namespace assay {
namespace {

constexpr int stage_count = 3;
constexpr int blocks_per_stage = 9;  // 6 * 9 + 2 weighted layers
constexpr std::int64_t first_channels = 16;
constexpr std::int64_t last_window = 8;  // the whole last image for 32 x 32 pixels

// Keras's defaults, which the example does not change.
constexpr double momentum = 0.99;
constexpr double norm_epsilon = 1e-3;

struct Layer {
  std::int64_t channels, kernel, stride;
};

// A convolution with the padding that keeps the image at stride 1.
ValueId convolution(GraphBuilder& b, const std::string& name, ValueId x, const Layer& layer) {
  const Window window{.kernel = layer.kernel, .stride = layer.stride, .padding = layer.kernel / 2};
  return b.convolution(name, x, layer.channels, window, true, "he_normal");
}

ValueId normalised(GraphBuilder& b, const std::string& name, ValueId x, const Layer& layer) {
  return b.batch_norm(name + ".norm", convolution(b, name, x, layer), momentum, norm_epsilon);
}

ValueId block(GraphBuilder& b, const std::string& name, ValueId x, std::int64_t channels, bool narrows) {
  const std::int64_t stride = narrows ? 2 : 1;
  const ValueId shortcut = narrows ? convolution(b, name + ".shortcut", x, {channels, 1, stride}) : x;
  ValueId y = b.relu(normalised(b, name + ".conv1", x, {channels, 3, stride}), name + ".relu1");
  y = normalised(b, name + ".conv2", y, {channels, 3, 1});
  return b.relu(b.add(shortcut, y, name + ".sum"), name + ".relu2");
}

ValueId resnet56_network(GraphBuilder& b, ValueId x, std::int64_t classes) {
  x = b.relu(normalised(b, "conv1", x, {first_channels, 3, 1}), "relu1");
  std::int64_t channels = first_channels;
  for (int stage = 1; stage <= stage_count; ++stage, channels *= 2) {
    for (int i = 1; i <= blocks_per_stage; ++i) {
      x = block(b, fmt::format("stage{}.block{}", stage, i), x, channels, stage > 1 && i == 1);
    }
  }
  x = b.average_pool(x, {.kernel = last_window, .stride = last_window}, "pool");
  return b.linear("fc", b.flatten(x, "flatten"), classes, true, "he_normal");
}

}  // namespace

Workload resnet56() {
  return {
      .name = "resnet56",
      .description =
          "ResNet-56 v1: 3 stages of 9 blocks of two 3x3 convolutions (16, 32, 64 channels), average pool 8, "
          "FC",
      .source =
          "He et al. 2015 in the form of Keras's example cifar10_resnet, which Smartia ran (Keras 2.2.4). "
          "Taken over: a bias in every convolution, a 1x1 projection of stride 2 without batch norm where "
          "the channels change, stride 2 in a block's first convolution, batch norm with momentum 0.99 and "
          "epsilon 1e-3, He-normal weights, Adam 1e-3, batch 32. Not taken over: its L2 penalty of 1e-4 on "
          "the weights of the convolutions and its steps of the learning rate (options of a run), 'same' "
          "padding at stride 2, which pads only below and right (here all sides, as in the paper's own "
          "code), and the truncation of He-normal draws",
      .dataset = "cifar10",
      .sample_shape = {3, 32, 32},
      .classes = 10,
      .parameters = 861770 - 4064,  // Keras's summary() minus the running statistics
      .batch = 32,
      .small = {.batch = 4},
      .optimizer = {.kind = "adam"},
      .learning_rate = 1e-3,
      .network = resnet56_network};
}

}  // namespace assay
