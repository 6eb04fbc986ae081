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

ValueId convolved(GraphBuilder& b, const std::string& name, ValueId x, std::int64_t channels, Window window) {
  return b.relu(b.convolution(name, x, channels, window), name + ".relu");
}

ValueId inception(GraphBuilder& b, const Inception& block, ValueId x) {
  const std::string name = std::string("inception") + block.name;
  const Window point{}, three{.kernel = 3, .padding = 1}, five{.kernel = 5, .padding = 2};
  const ValueId ones = convolved(b, name + ".conv1", x, block.ones, point);
  ValueId threes = convolved(b, name + ".conv3_before", x, block.before_threes, point);
  threes = convolved(b, name + ".conv3", threes, block.threes, three);
  ValueId fives = convolved(b, name + ".conv5_before", x, block.before_fives, point);
  fives = convolved(b, name + ".conv5", fives, block.fives, five);
  ValueId pooled = b.max_pool(x, three, name + ".pool");
  pooled = convolved(b, name + ".conv_pool", pooled, block.pooled, point);
  const std::array branches{ones, threes, fives, pooled};
  return b.concat(branches, 1, name + ".concat");
}

ValueId network(GraphBuilder& b, ValueId x, std::int64_t classes) {
  const Window halve{.kernel = 3, .stride = 2, .padding = 1};
  x = convolved(b, "conv1", x, 64, {.kernel = 7, .stride = 2, .padding = 3});
  x = b.max_pool(x, halve, "pool1");
  x = convolved(b, "conv2_before", x, 64, {});
  x = convolved(b, "conv2", x, 192, {.kernel = 3, .padding = 1});
  x = b.max_pool(x, halve, "pool2");
  x = inception(b, inception_3a, x);
  x = inception(b, inception_3b, x);
  x = b.max_pool(x, halve, "pool3");
  for (const Inception& block : fourth) x = inception(b, block, x);
  x = b.max_pool(x, halve, "pool4");
  for (const Inception& block : fifth) x = inception(b, block, x);
  const Shape shape = b.graph().value(x).type.shape;
  if (shape[2] != shape[3])
    throw GraphError("[googlenet] got images that end as " + to_string(shape) + ": they must be square");
  x = b.average_pool(x, {.kernel = shape[2]}, "pool5");
  return b.relu(b.linear("fc", b.flatten(x, "flatten"), classes), "relu");
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
      .network = network};
}

}  // namespace assay
