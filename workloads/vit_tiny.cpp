#include "workloads/registry.hpp"

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "workloads/transformer.hpp"

namespace assay {
namespace {

constexpr std::int64_t patch = 4;
transformer::Form form_of(std::int64_t layers) {
  return {.layers = layers, .width = 192, .heads = 3, .hidden = 768, .epsilon = 1e-6};
}

transformer::LayerNames vit_names(std::int64_t layer) {
  const std::string at = fmt::format("block{}.", layer + 1);
  return {.query = at + "query",
          .key = at + "key",
          .value = at + "value",
          .output = at + "output",
          .up = at + "fc1",
          .down = at + "fc2",
          .norm1 = at + "norm1",
          .norm2 = at + "norm2"};
}

// Images (N, C, H, W) -> tokens (N, H / 4 * W / 4, width), row by row.
ValueId patches(GraphBuilder& b, const transformer::Form& form, ValueId x) {
  const Shape image = b.graph().value(x).type.shape;
  if (image[2] % patch != 0 || image[3] % patch != 0)
    throw GraphError(fmt::format("[{}] got images {}: their sides must be multiples of {}", b.graph().name(),
                                 to_string(image), patch));
  x = b.convolution("patches", x, form.width, {.kernel = patch, .stride = patch}, true, form.initializer);
  const std::int64_t tokens = image[2] / patch * (image[3] / patch);
  x = b.reshape(x, {-1, form.width, tokens}, "patches.flat");
  return b.apply("transpose", {x}, {{"permutation", Shape{0, 2, 1}}}, "tokens").front();
}

ValueId vit_network(GraphBuilder& b, const transformer::Form& form, ValueId x, std::int64_t classes) {
  x = patches(b, form, x);
  const std::int64_t tokens = b.graph().value(x).type.shape[1];
  x = b.add(x, transformer::positions(b, form, "positions", tokens, tokens), "sum");
  for (std::int64_t layer = 0; layer < form.layers; ++layer)
    x = transformer::pre_norm_layer(b, form, vit_names(layer), x);
  x = b.mean_pool(b.layer_norm("norm", x, form.epsilon), none, "pooled");
  return b.linear("head", x, classes, true, form.initializer);
}

NetworkFunction vit_network_of(std::int64_t layers) {
  return [=](GraphBuilder& b, ValueId x, std::int64_t classes) {
    return vit_network(b, form_of(layers), x, classes);
  };
}

}  // namespace

Workload vit_tiny() {
  constexpr std::int64_t layers = 12, width = 192, tokens = 64;
  return {.name = "vit-tiny",
          .description =
              "ViT-Tiny with patches of 4 x 4: 12 layers of width 192, 3 heads, MLP 768; the mean "
              "over the tokens, FC",
          .source =
              "Dosovitskiy et al. 2021 with the width of Touvron et al. 2021 (DeiT-Ti), for images of 32 "
              "x 32: erf GELU, layer norm with epsilon 1e-6 before each branch and at the end, learned "
              "positions, no class token but the mean over the tokens (Beyer et al. 2022), no dropout. "
              "AdamW 1e-3 with decay 0.05 and batch 64 are ours",
          .dataset = "cifar10",
          .sample_shape = {3, 32, 32},
          .classes = 10,
          .parameters = (3 * patch * patch + 1) * width + tokens * width +
                        layers * (12 * width * width + 13 * width) + 2 * width + 10 * width + 10,
          .batch = 64,
          .small = {.batch = 4, .sample_shape = {3, 16, 16}, .classes = 10, .network = vit_network_of(2)},
          .optimizer = {.kind = "adamw", .weight_decay = 0.05},
          .learning_rate = 1e-3,
          .network = vit_network_of(layers)};
}

}  // namespace assay
