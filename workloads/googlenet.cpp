#include <array>
#include <string>

#include "harness/core/error.hpp"
#include "workloads/registry.hpp"

namespace assay {
namespace {

// Channels of one inception: 1x1; 1x1 before 3x3; 3x3; 1x1 before 5x5; 5x5; 1x1 after the pool.
struct Inception {
  const char* name;
  std::int64_t ones, before_threes, threes, before_fives, fives, pooled;
};
constexpr Inception inception_3a{"3a", 64, 96, 128, 16, 32, 32};
constexpr Inception inception_3b{"3b", 128, 128, 192, 32, 96, 64};
constexpr std::array fourth{
    Inception{"4a", 192, 96, 208, 16, 48, 64}, Inception{"4b", 160, 112, 224, 24, 64, 64},
    Inception{"4c", 128, 128, 256, 24, 64, 64}, Inception{"4d", 112, 144, 288, 32, 64, 64},
    Inception{"4e", 256, 160, 320, 32, 128, 128}};
constexpr std::array fifth{Inception{"5a", 256, 160, 320, 32, 128, 128},
                           Inception{"5b", 384, 192, 384, 48, 128, 128}};

// The layers with a batch norm before each ReLU of a convolution, which then has no bias, or without any.
class Layers {
 public:
  Layers(GraphBuilder& builder, bool normalised) : b_(builder), normalised_(normalised) {}

  ValueId convolved(const std::string& name, ValueId x, std::int64_t channels, Window window) {
    x = b_.convolution(name, x, channels, window, !normalised_);
    if (normalised_) x = b_.batch_norm(name + ".norm", x);
    return b_.relu(x, name + ".relu");
  }

  ValueId inception(const Inception& block, ValueId x) {
    const std::string name = std::string("inception") + block.name;
    const Window point{}, three{.kernel = 3, .padding = 1}, five{.kernel = 5, .padding = 2};
    const ValueId ones = convolved(name + ".conv1", x, block.ones, point);
    ValueId threes = convolved(name + ".conv3_before", x, block.before_threes, point);
    threes = convolved(name + ".conv3", threes, block.threes, three);
    ValueId fives = convolved(name + ".conv5_before", x, block.before_fives, point);
    fives = convolved(name + ".conv5", fives, block.fives, five);
    ValueId pooled = b_.max_pool(x, three, name + ".pool");
    pooled = convolved(name + ".conv_pool", pooled, block.pooled, point);
    const std::array branches{ones, threes, fives, pooled};
    return b_.concat(branches, 1, name + ".concat");
  }

 private:
  GraphBuilder& b_;
  bool normalised_;
};

// The result of the last pool, (N, 1024).
ValueId features(GraphBuilder& b, bool normalised, ValueId x) {
  Layers layers(b, normalised);
  const Window halve{.kernel = 3, .stride = 2, .padding = 1};
  x = layers.convolved("conv1", x, 64, {.kernel = 7, .stride = 2, .padding = 3});
  x = b.max_pool(x, halve, "pool1");
  x = layers.convolved("conv2_before", x, 64, {});
  x = layers.convolved("conv2", x, 192, {.kernel = 3, .padding = 1});
  x = b.max_pool(x, halve, "pool2");
  x = layers.inception(inception_3a, x);
  x = layers.inception(inception_3b, x);
  x = b.max_pool(x, halve, "pool3");
  for (const Inception& block : fourth) x = layers.inception(block, x);
  x = b.max_pool(x, halve, "pool4");
  for (const Inception& block : fifth) x = layers.inception(block, x);
  const Shape shape = b.graph().value(x).type.shape;
  if (shape[2] != shape[3])
    throw GraphError("[" + b.graph().name() + "] got images that end as " + to_string(shape) +
                     ": they must be square");
  x = b.average_pool(x, {.kernel = shape[2]}, "pool5");
  return b.flatten(x, "flatten");
}

}  // namespace

Workload googlenet() {
  return {
      .name = "googlenet",
      .description =
          "C(64,7,2)-P-C(64,1)-C(192,3)-P-2 inceptions-P-5 inceptions-P-2 inceptions-AvgP-FC1000, all with "
          "ReLU, MaxP(3,2,1)",
      .source =
          "convnet-benchmarks, torch7/imagenet_winners/googlenet.lua (commit 5db156e): Szegedy et al. 2014 "
          "without normalisation, dropout and auxiliary classifiers, with a ReLU after the last layer. "
          "The original has no update; Adam is ours, because three steps of plain SGD at the check's rates "
          "give values that are not finite over 22 layers without normalisation",
      .dataset = "synthetic",
      .sample_shape = {3, 224, 224},
      .classes = 1000,
      .parameters = 6998552,
      .batch = 128,
      .small = {.batch = 4, .sample_shape = {3, 64, 64}, .classes = 10},
      .optimizer = {.kind = "adam"},
      .learning_rate = 1e-3,
      .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
        return b.relu(b.linear("fc", features(b, false, x), classes), "relu");
      }};
}

Workload googlenet_bn() {
  return {
      .name = "googlenet_bn",
      .description = "googlenet with a batch norm before each ReLU of a convolution, and none after FC1000",
      .source =
          "MXNet slides (2016), which train \"googlenet with batch normalization\" and give no layers: the "
          "network of convnet-benchmarks with the norms of Ioffe & Szegedy 2015, and no bias before them. "
          "SGD with momentum 0.9, rate 0.05 and batch 64 are ours",
      .dataset = "synthetic",
      .sample_shape = {3, 224, 224},
      .classes = 1000,
      // 7280 channels of convolutions have a scale and a shift instead of a bias.
      .parameters = 6998552 + 7280,
      .batch = 64,
      .small = {.batch = 4, .sample_shape = {3, 64, 64}, .classes = 10},
      .optimizer = {.kind = "sgd"},
      .learning_rate = 0.05,
      .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
        return b.linear("fc", features(b, true, x), classes);
      }};
}

}  // namespace assay
