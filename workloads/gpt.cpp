#include "workloads/registry.hpp"

#include <fmt/format.h>

#include <cmath>

#include "workloads/transformer.hpp"

// The names of layers and parameters are those of nanoGPT and of transformers' GPT2Model, but for the
// projection of queries, keys and values, which is one layer there.
namespace assay {
namespace {

using transformer::Form;

transformer::LayerNames gpt_names(std::int64_t layer) {
  const std::string at = fmt::format("h.{}.", layer);
  return {.query = at + "attn.query",
          .key = at + "attn.key",
          .value = at + "attn.value",
          .output = at + "attn.c_proj",
          .up = at + "mlp.c_fc",
          .down = at + "mlp.c_proj",
          .norm1 = at + "ln_1",
          .norm2 = at + "ln_2"};
}

// `rows`: positions in the table; 0: as many as a sample has. The table of the characters or words is also the
// weight of the head. In task decode only the last token of a prompt needs logits.
ValueId gpt_network(GraphBuilder& b, const Form& form, ValueId tokens, std::int64_t rows,
                    std::int64_t classes) {
  b.sparse_embedding_gradients(false);  // the head's gradient of the table is dense
  const std::int64_t length = b.graph().value(tokens).type.shape[1];
  ValueId x = b.embedding("wte", tokens, classes, form.width, form.initializer);
  const ValueId table = b.graph().find("wte.weight");
  const std::int64_t places = b.decoding() ? b.decoding()->length : length;
  x = b.add(x, transformer::positions(b, form, "wpe", length, rows > 0 ? rows : places), "sum");
  for (std::int64_t layer = 0; layer < form.layers; ++layer)
    x = transformer::pre_norm_layer(b, form, gpt_names(layer), x);
  if (b.decoding() && length > 1) x = b.slice(x, 1, length - 1, length, "last");
  x = b.layer_norm("ln_f", x, form.epsilon);
  return b.apply("linear", {x, table, none}, {}, "lm_head").front();
}

NetworkFunction gpt_network_of(const Form& form, std::int64_t rows) {
  return [=](GraphBuilder& b, ValueId x, std::int64_t classes) {
    return gpt_network(b, form, x, rows, classes);
  };
}

// Weights start from N(0, 0.02), those that end a branch from N(0, 0.02 / sqrt(2 layers)) (Radford et al.
// 2019).
Form form_of(std::int64_t layers, std::int64_t width, std::int64_t heads) {
  return {
      .layers = layers,
      .width = width,
      .heads = heads,
      .hidden = 4 * width,
      .causal = true,
      .last_initializer = fmt::format("normal:{:.6g}", 0.02 / std::sqrt(2.0 * static_cast<double>(layers)))};
}

Form form_of_nanogpt() {
  Form form = form_of(4, 128, 4);
  form.bias = false;
  return form;
}

Form form_of_gpt2(std::int64_t layers, std::int64_t width) {
  Form form = form_of(layers, width, 12);
  form.gelu = "tanh";
  return form;
}

}  // namespace

Workload nanogpt() {
  constexpr std::int64_t layers = 4, width = 128, block = 64, characters = 65;
  return {.name = "nanogpt",
          .description =
              "GPT of characters: 4 layers of width 128, 4 heads, on 64 characters; the next "
              "character at every position",
          .source =
              "Karpathy's nanoGPT, config train_shakespeare_char for a CPU: erf GELU, no biases, tied "
              "head, no dropout, batch 12, AdamW 1e-3 with beta2 0.99 and decay 0.1, gradients clipped "
              "at 1. Not taken over: one layer for queries, keys and values (here three), layer norm "
              "without a shift (here it has one, which starts from zero), windows at random places "
              "(here the file is cut into blocks), and the course of the learning rate (an option: "
              "--schedule)",
          .dataset = "synthetic",
          .sample_shape = {block},
          .vocabulary = characters,
          .next_token = true,
          .decodes = true,
          .classes = characters,
          .parameters = (characters + block) * width + layers * (12 * width * width + 4 * width) + 2 * width,
          .batch = 12,
          .small = {.batch = 4, .sample_shape = {16}},
          .optimizer = {.kind = "adamw", .beta2 = 0.99, .weight_decay = 0.1, .clip_norm = 1},
          .learning_rate = 1e-3,
          .network = gpt_network_of(form_of_nanogpt(), 0)};
}

Workload gpt2_small() {
  constexpr std::int64_t layers = 12, width = 768, longest = 1024, words = 50257;
  constexpr std::int64_t few_words = 200, few_layers = 2, small_width = 96;
  return {.name = "gpt2-small",
          .description =
              "GPT-2 small: 12 layers of width 768, 12 heads, on 1024 tokens; the next token at "
              "every position",
          .source =
              "Radford et al. 2019: tanh GELU, layer norm before each branch, tied head. AdamW 6e-4 "
              "with beta2 0.95 and decay 0.1 and gradients clipped at 1 are those of nanoGPT. Not taken "
              "over: dropout, and one layer for queries, keys and values (here three). Batch 2 is ours",
          .dataset = "synthetic",
          .sample_shape = {longest},
          .vocabulary = words,
          .next_token = true,
          .decodes = true,
          .classes = words,
          .parameters = (words + longest) * width + layers * (12 * width * width + 13 * width) + 2 * width,
          .batch = 2,
          .small = {.batch = 4,
                    .sample_shape = {16},
                    .classes = few_words,
                    .network = gpt_network_of(form_of_gpt2(few_layers, small_width), longest),
                    .vocabulary = few_words},
          .optimizer = {.kind = "adamw", .beta2 = 0.95, .weight_decay = 0.1, .clip_norm = 1},
          .learning_rate = 6e-4,
          .network = gpt_network_of(form_of_gpt2(layers, width), longest)};
}

}  // namespace assay
