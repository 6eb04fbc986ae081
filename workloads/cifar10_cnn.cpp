#include "workloads/registry.hpp"

namespace assay {
namespace {

// Two convolutions, the first padded to keep the size, the second without padding; then a pool and a dropout.
ValueId block(GraphBuilder& b, ValueId x, std::int64_t channels, int number) {
  const auto name = [&](const char* stem, int n) { return stem + std::to_string(n); };
  x = b.relu(b.convolution(name("conv", 2 * number - 1), x, channels, {.kernel = 3, .padding = 1}),
             name("relu", 2 * number - 1));
  x = b.relu(b.convolution(name("conv", 2 * number), x, channels, {.kernel = 3}), name("relu", 2 * number));
  x = b.max_pool(x, {.kernel = 2, .stride = 2}, name("pool", number));
  return b.dropout(x, 0.25, name("dropout", number));
}

}  // namespace

Workload cifar10_cnn() {
  return {
      .name = "cifar10-cnn",
      .description =
          "2 x [C(3) same, C(3), MaxP(2,2), dropout .25] of 32 and 64 channels, FC512, dropout .5, FC10",
      .source =
          "Keras's example cifar10_cnn.py, which Paltenghi et al. 2020 ran as TensorFlow's CIFAR-10 tutorial:"
          " RMSprop 1e-4 with decay 1e-6, batch 256; rho 0.9 and epsilon 1e-7 are Keras's defaults",
      .dataset = "cifar10",
      .sample_shape = {3, 32, 32},
      .classes = 10,
      .parameters = 1250858,  // as Keras's summary() prints
      .batch = 256,
      .small = {.batch = 16},
      .optimizer = {.kind = "rmsprop", .decay = 0.9, .epsilon = 1e-7},
      .learning_rate = 1e-4,
      .schedule = "decay:1e-06",
      .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
        x = block(b, x, 32, 1);
        x = block(b, x, 64, 2);
        x = b.flatten(x, "flatten");
        x = b.relu(b.linear("fc1", x, 512), "relu5");
        x = b.dropout(x, 0.5, "dropout3");
        return b.linear("fc2", x, classes);
      }};
}

}  // namespace assay
