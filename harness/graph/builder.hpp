// Builds graphs: one method per op; makes names unique and accumulates gradients.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // the same on all four sides
};

struct AttentionOptions {
  bool causal = false;
  double scale = 0;     // 0: 1 / sqrt(D)
  ValueId mask = none;  // f32 (N or 1, H or 1, S or 1, T), added before the softmax
};

// The part of task decode that a graph computes (struct Decoding).
struct DecodingPart {
  bool step = false;        // one token; false: the prompt
  std::int64_t length = 0;  // places in the caches
  ValueId position = none;  // i32 (1), of role position
};

// Borrows the graph; it must outlive the builder.
class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph, bool training = true) : graph_(graph), training_(training) {}
  // For task decode: in this graph attention reads and writes caches.
  GraphBuilder(Graph& graph, const DecodingPart& part) : graph_(graph), training_(false), decoding_(part) {}

  Graph& graph() { return graph_; }
  // Whether ops that differ between training and inference are built for training.
  bool training() const { return training_; }
  // Set in the graphs of task decode, whose inputs are only some of a sample's tokens.
  const std::optional<DecodingPart>& decoding() const { return decoding_; }
  // Whether the tables of later embeddings have row-sparse gradients (default: dense).
  void sparse_embedding_gradients(bool sparse) { sparse_embeddings_ = sparse; }
  // The momentum of later batch norms; 0: that of each layer.
  void norm_momentum(double momentum) { norm_momentum_ = momentum; }
  double norm_momentum() const { return norm_momentum_; }

  ValueId input(std::string name, Shape shape);
  // A feed of whole numbers: i32.
  ValueId tokens(std::string name, Shape shape);
  ValueId label(std::string name, Shape shape);
  ValueId parameter(std::string name, Shape shape, std::string initializer);
  ValueId state(std::string name, Shape shape, std::string initializer);

  // Layers: they add the parameters "<name>.weight" and "<name>.bias" and return the result.
  // `initializer` is that of the weight (harness/conductor/data/initial_values.hpp); biases start from zero.
  ValueId convolution(std::string name, ValueId x, std::int64_t channels, Window window, bool bias = true,
                      std::string initializer = "glorot_uniform");
  // x: (..., I), with one leading dimension or more.
  ValueId linear(std::string name, ValueId x, std::int64_t features, bool bias = true,
                 std::string initializer = "glorot_uniform");
  ValueId batch_norm(std::string name, ValueId x, double momentum = 0.9, double epsilon = 1e-5);
  // Over the last dimension of x. The scale is "<name>.weight", the shift is "<name>.bias".
  ValueId layer_norm(std::string name, ValueId x, double epsilon = 1e-5);
  // Over the last dimension of x. The scale is "<name>.weight"; it has no shift.
  ValueId rms_norm(std::string name, ValueId x, double epsilon = 1e-6);

  // tokens: i32 of any shape; a table of `rows` rows of `width`.
  ValueId embedding(std::string name, ValueId tokens, std::int64_t rows, std::int64_t width,
                    std::string initializer = "uniform_fan_in");
  // x: (N, T, I). Returns all steps (N, T, units), or the last one (N, units). Also adds
  // "<name>.recurrent_weight".
  ValueId lstm(std::string name, ValueId x, std::int64_t units, bool last);

  ValueId relu(ValueId x, std::string name = {});
  // approximate: "none" (with erf) or "tanh".
  ValueId gelu(ValueId x, std::string name = {}, std::string approximate = "none");
  ValueId silu(ValueId x, std::string name = {});
  ValueId average_pool(ValueId x, Window window, std::string name = {});
  ValueId max_pool(ValueId x, Window window, std::string name = {});
  ValueId flatten(ValueId x, std::string name = {});
  // In training it adds the mask "<name>.mask"; in inference it returns x.
  ValueId dropout(ValueId x, double rate, std::string name = {});
  // b has the shape of a, or that of its last dimensions (positions, biases).
  ValueId add(ValueId a, ValueId b, std::string name = {});
  ValueId reshape(ValueId x, Shape shape, std::string name = {});
  // The elements from `begin` to `end` (excluded) along a dimension.
  ValueId slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t end, std::string name = {});
  // q (N, S, H, D), k and v (N, T, G, D); returns (N, S, H, D). In the graphs of task decode it must be causal,
  // of tokens to themselves and without a mask: it writes k and v into the caches "<name>.keys" and
  // "<name>.values", and a step reads all earlier tokens from there.
  ValueId attention(ValueId q, ValueId k, ValueId v, const AttentionOptions& options = {},
                    std::string name = {});
  // x (N, S, H, D), D even: rotary position embedding.
  ValueId rotary(ValueId x, double base = 10000, bool interleaved = false, std::string name = {});
  // tokens i32 (N, T). Returns (N, 1, 1, T): -inf where the token is `padding`, else 0.
  ValueId padding_mask(ValueId tokens, std::int64_t padding, std::string name = {});
  // x (N, T, D). Mean over T, without positions where the mask (N, 1, 1, T) is -inf; returns (N, D).
  ValueId mean_pool(ValueId x, ValueId mask = none, std::string name = {});
  ValueId concat(std::span<const ValueId> values, std::int64_t axis, std::string name = {});
  // Average over all of H and W: (N, C).
  ValueId global_average_pool(ValueId x, std::string name = {});
  // logits (..., C), labels i32 (...): mean loss over all labels but those that are `ignored`, a scalar.
  ValueId softmax_cross_entropy(ValueId logits, ValueId labels, std::string name = {},
                                std::optional<std::int64_t> ignored = {});

  // Adds any op by name and returns its outputs. An empty name becomes "<op>", "<op>_2", ... An empty
  // `wanted` means all results, but without the optional ones if not training.
  std::vector<ValueId> apply(std::string_view op, std::span<const ValueId> inputs, Attributes attributes = {},
                             std::string name = {}, std::vector<bool> wanted = {});
  std::vector<ValueId> apply(std::string_view op, std::initializer_list<ValueId> inputs,
                             Attributes attributes = {}, std::string name = {},
                             std::vector<bool> wanted = {}) {
    return apply(op, std::span(inputs.begin(), inputs.size()), std::move(attributes), std::move(name),
                 std::move(wanted));
  }

 private:
  std::string unique(std::string_view stem) const;
  // Writes x into the cache of that name; returns the cache with it.
  ValueId cached(std::string name, ValueId x);
  ValueId decoding_attention(ValueId q, ValueId k, ValueId v, const AttentionOptions& options,
                             std::string name);

  Graph& graph_;
  bool training_;
  std::optional<DecodingPart> decoding_;
  bool sparse_embeddings_ = false;
  double norm_momentum_ = 0;
};

}  // namespace assay
