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

// The differences between the two variants.
struct ResNetForm {
  bool bias;  // in the convolutions
  double momentum, epsilon;
};
constexpr ResNetForm of_paper{.bias = false, .momentum = 0.9, .epsilon = 1e-5};
constexpr ResNetForm of_keras{.bias = true, .momentum = 0.99, .epsilon = 1e-3};

ValueId normalised(GraphBuilder& b, const ResNetForm& form, const std::string& name, ValueId x,
                   std::int64_t channels, Window window) {
  const ValueId y = b.convolution(name, x, channels, window, form.bias, "he_normal");
  return b.batch_norm(name + ".norm", y, form.momentum, form.epsilon);
}

// The stride is in the first 1x1 convolution and in the projection.
ValueId block(GraphBuilder& b, const ResNetForm& form, const std::string& name, ValueId x,
              std::int64_t channels, std::int64_t stride, bool first) {
  const Window point{}, strided{.kernel = 1, .stride = stride}, same{.kernel = 3, .stride = 1, .padding = 1};
  const ValueId shortcut =
      first ? normalised(b, form, name + ".shortcut", x, expansion * channels, strided) : x;
  ValueId y = b.relu(normalised(b, form, name + ".conv1", x, channels, strided), name + ".relu1");
  y = b.relu(normalised(b, form, name + ".conv2", y, channels, same), name + ".relu2");
  y = normalised(b, form, name + ".conv3", y, expansion * channels, point);
  return b.relu(b.add(shortcut, y, name + ".sum"), name + ".relu3");
}

ValueId resnet50_network(GraphBuilder& b, const ResNetForm& form, ValueId x, std::int64_t classes) {
  x = b.relu(normalised(b, form, "conv1", x, 64, {.kernel = 7, .stride = 2, .padding = 3}), "relu1");
  x = b.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1}, "pool1");
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (int i = 1; i <= stages[s].blocks; ++i) {
      const std::int64_t stride = s > 0 && i == 1 ? 2 : 1;
      x = block(b, form, fmt::format("stage{}.block{}", s + 1, i), x, stages[s].channels, stride, i == 1);
    }
  }
  const Shape shape = b.graph().value(x).type.shape;
  if (shape[2] != shape[3])
    throw GraphError(fmt::format("[{}] got images that end as {}: they must be square", b.graph().name(),
                                 to_string(shape)));
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
              "which is normalised; no bias before a batch norm; He-normal weights. SGD with momentum "
              "0.9, rate 0.1 and batch 32 are ours (the paper's batch is 256)",
          .dataset = "synthetic",
          .sample_shape = {3, 224, 224},
          .classes = 1000,
          .parameters = 25557032,  // as in the paper
          .batch = 32,
          .small = {.batch = 4, .sample_shape = {3, 32, 32}, .classes = 10},
          .optimizer = {.kind = "sgd"},
          .learning_rate = 0.1,
          .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
            return resnet50_network(b, of_paper, x, classes);
          }};
}

Workload resnet50_keras() {
  return {.name = "resnet50_keras",
          .description = "ResNet-50 v1 as in keras.applications: a bias in every convolution",
          .source =
              "keras_applications 1.0.6 of Keras 2.2.4, which Smartia ran: resnet50 with a bias in every "
              "convolution and batch norm with momentum 0.99 and epsilon 1e-3. RMSprop 1e-4 and batch 16 are "
              "those of the study",
          .dataset = "synthetic-noise",
          .sample_shape = {3, 224, 224},
          .classes = 1000,
          .parameters = 25636712 - 53120,  // Keras's summary() minus the running statistics
          .batch = 16,
          .small = {.batch = 4, .sample_shape = {3, 32, 32}, .classes = 10},
          .optimizer = {.kind = "rmsprop"},
          .learning_rate = 1e-4,
          .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
            return resnet50_network(b, of_keras, x, classes);
          }};
}

}  // namespace assay
