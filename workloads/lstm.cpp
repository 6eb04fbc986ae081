#include "workloads/registry.hpp"

namespace assay {

Workload lstm() {
  return {.name = "lstm",
          .description = "Embedding(5000, 128)-LSTM(128)-FC2 on texts of 500 words, the last step's output",
          .source = "Borealis AI 2018, sentiment of IMDB reviews; the widths are ours, and so is batch 32",
          .dataset = "synthetic",
          .sample_shape = {500},
          .vocabulary = 5000,
          .classes = 2,
          .parameters = 5000 * 128 + 512 * 128 + 512 * 128 + 512 + 2 * 128 + 2,
          .batch = 32,
          .small = {.batch = 8, .sample_shape = {40}, .classes = 2},
          .optimizer = {.kind = "adam"},
          .learning_rate = 1e-3,
          .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
            x = b.embedding("embedding", x, 5000, 128);
            x = b.lstm("lstm", x, 128, true);
            return b.linear("fc", x, classes);
          }};
}

}  // namespace assay
