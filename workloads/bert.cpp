#include "workloads/registry.hpp"

#include <fmt/format.h>

#include "workloads/transformer.hpp"

// The names of layers and parameters are those of transformers' BertModel.
namespace assay {
namespace {

using transformer::Form;

constexpr std::int64_t vocabulary = 30522, longest = 512, token_types = 2;
constexpr std::int64_t padding = 0;  // [PAD]
constexpr double epsilon = 1e-12;

transformer::LayerNames bert_names(std::int64_t layer) {
  const std::string at = fmt::format("encoder.layer.{}.", layer);
  return {.query = at + "attention.self.query",
          .key = at + "attention.self.key",
          .value = at + "attention.self.value",
          .output = at + "attention.output.dense",
          .up = at + "intermediate.dense",
          .down = at + "output.dense",
          .norm1 = at + "attention.output.LayerNorm",
          .norm2 = at + "output.LayerNorm"};
}

// The sum of three embeddings. Every token is of type 0, as in a text without a second part.
ValueId embeddings(GraphBuilder& b, const Form& form, ValueId tokens, std::int64_t words) {
  const std::int64_t length = b.graph().value(tokens).type.shape[1];
  ValueId x = b.embedding("embeddings.word_embeddings", tokens, words, form.width, form.initializer);
  const ValueId types =
      b.parameter("embeddings.token_type_embeddings.weight", {token_types, form.width}, form.initializer);
  const ValueId type = b.reshape(b.slice(types, 0, 0, 1, "embeddings.token_type_embeddings"), {form.width},
                                 "embeddings.token_type");
  x = b.add(x, type, "embeddings.sum1");
  x = b.add(x, transformer::positions(b, form, "embeddings.position_embeddings", length, longest),
            "embeddings.sum2");
  return b.layer_norm("embeddings.LayerNorm", x, form.epsilon);
}

ValueId bert_network(GraphBuilder& b, const Form& form, ValueId tokens, std::int64_t words,
                     std::int64_t classes) {
  const ValueId mask = b.padding_mask(tokens, padding, "mask");
  ValueId x = embeddings(b, form, tokens, words);
  for (std::int64_t layer = 0; layer < form.layers; ++layer)
    x = transformer::post_norm_layer(b, form, bert_names(layer), x, mask);
  return b.linear("classifier", b.mean_pool(x, mask, "pooled"), classes, true, form.initializer);
}

NetworkFunction bert_network_of(const Form& form, std::int64_t words) {
  return [=](GraphBuilder& b, ValueId x, std::int64_t classes) {
    return bert_network(b, form, x, words, classes);
  };
}

Form form_of(std::int64_t layers, std::int64_t width) {
  return {.layers = layers, .width = width, .heads = 12, .hidden = 4 * width, .epsilon = epsilon};
}

constexpr std::int64_t parameters_of(std::int64_t layers, std::int64_t width) {
  const std::int64_t embedded = (vocabulary + longest + token_types + 2) * width;
  const std::int64_t layer = 12 * width * width + 13 * width;
  return embedded + layers * layer + 2 * width + 2;
}

// Two layers and few words have every kind of layer.
SmallForm small_of(std::int64_t width) {
  constexpr std::int64_t few_words = 200;
  return {.batch = 4,
          .sample_shape = {16},
          .classes = 2,
          .network = bert_network_of(form_of(2, width), few_words),
          .vocabulary = few_words};
}

// Files that were converted from TensorFlow have other names for the parameters of a layer norm.
PublishedTensors published_form() {
  return {.prefix = "bert.",
          .renamed = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}},
          .without = {"classifier."}};
}

}  // namespace

Workload minilm() {
  constexpr std::int64_t layers = 6, width = 384;
  return {.name = "minilm",
          .description =
              "BERT encoder: 6 layers of width 384, 12 heads, MLP 1536, on 128 tokens; the mean "
              "over the tokens of a text, FC2",
          .source =
              "Wang et al. 2020 (MiniLM) in the sizes of sentence-transformers/all-MiniLM-L6-v2: erf "
              "GELU, layer norm with epsilon 1e-12 after each sum, no dropout, mean pooling over the "
              "tokens that are not padding. The head of two classes, AdamW 5e-5 with decay 0.01 and "
              "batch 32 are those of fine-tuning (Devlin et al. 2019)",
          .dataset = "synthetic",
          .sample_shape = {128},
          .vocabulary = vocabulary,
          .padding = padding,
          .classes = 2,
          .parameters = parameters_of(layers, width),
          .batch = 32,
          .small = small_of(96),
          .optimizer = {.kind = "adamw", .weight_decay = 0.01},
          .learning_rate = 5e-5,
          .network = bert_network_of(form_of(layers, width), vocabulary),
          .published = published_form()};
}

Workload bert_base() {
  constexpr std::int64_t layers = 12, width = 768;
  return {.name = "bert-base",
          .description =
              "BERT encoder: 12 layers of width 768, 12 heads, MLP 3072, on 128 tokens; the mean "
              "over the tokens of a text, FC2",
          .source =
              "Devlin et al. 2019, BERT-base uncased: erf GELU, layer norm with epsilon 1e-12 after "
              "each sum. Not taken over: dropout, and the pooler of the first token (here the mean over "
              "the tokens that are not padding). AdamW 5e-5 with decay 0.01 and batch 32 are those of "
              "fine-tuning",
          .dataset = "synthetic",
          .sample_shape = {128},
          .vocabulary = vocabulary,
          .padding = padding,
          .classes = 2,
          .parameters = parameters_of(layers, width),
          .batch = 32,
          .small = small_of(96),
          .optimizer = {.kind = "adamw", .weight_decay = 0.01},
          .learning_rate = 5e-5,
          .network = bert_network_of(form_of(layers, width), vocabulary),
          .published = published_form()};
}

}  // namespace assay
