#include <string>

#include "workloads/registry.hpp"

namespace assay {

Workload vgg_a() {
  return {.name = "vgg_a",
          .description =
              "C64-P-C128-P-2xC256-P-2xC512-P-2xC512-P-FC4096-FC4096-FC1000, C(3) padded, ReLU, MaxP(2,2)",
          .source =
              "convnet-benchmarks, torch7/imagenet_winners/vgg_a.lua (commit 5b96dbc): configuration A of "
              "Simonyan & Zisserman 2014 without dropout. The original has no update, and Threshold(0, 1e-6) "
              "after the linear layers; plain SGD and max(x, 0) are ours",
          .dataset = "synthetic",
          .sample_shape = {3, 224, 224},
          .classes = 1000,
          .parameters = 132863336,
          .batch = 64,
          .small = {.batch = 4, .sample_shape = {3, 32, 32}, .classes = 10},
          .optimizer = {.kind = "sgd", .momentum = 0},
          .learning_rate = 1e-3,
          .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
            constexpr std::int64_t pool = 0;
            int convolutions = 0, pools = 0;
            for (const std::int64_t channels :
                 {64L, pool, 128L, pool, 256L, 256L, pool, 512L, 512L, pool, 512L, 512L, pool}) {
              if (channels == pool) {
                x = b.max_pool(x, {.kernel = 2, .stride = 2}, "pool" + std::to_string(++pools));
                continue;
              }
              const std::string number = std::to_string(++convolutions);
              x = b.relu(b.convolution("conv" + number, x, channels, {.kernel = 3, .padding = 1}),
                         "relu" + number);
            }
            x = b.flatten(x, "flatten");
            x = b.relu(b.linear("fc1", x, 4096), "relu9");
            x = b.relu(b.linear("fc2", x, 4096), "relu10");
            return b.linear("fc3", x, classes);
          }};
}

}  // namespace assay
