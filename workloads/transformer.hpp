// The layers that BERT, GPT and ViT share. All values are (N, T, width).
#pragma once

#include <cstdint>
#include <string>

#include "harness/graph/builder.hpp"

namespace assay::transformer {

// The sizes of a network, and the differences between the families.
struct Form {
  std::int64_t layers = 0, width = 0, heads = 0, hidden = 0;  // hidden: the width inside an MLP
  double epsilon = 1e-5;                                      // of layer norm
  std::string gelu = "none";                                  // the attribute `approximate`
  bool bias = true;                                           // in linear layers
  bool causal = false;
  std::string initializer = "normal:0.02";       // of weights
  std::string last_initializer = "normal:0.02";  // of the layers whose results are added to x
};

// Names of the linear layers and norms of one layer, with their prefix.
struct LayerNames {
  std::string query, key, value, output, up, down, norm1, norm2;
};

// A linear layer over the last dimension.
ValueId linear(GraphBuilder& b, const Form& form, const std::string& name, ValueId x, std::int64_t features,
               bool adds = false);

// The first `length` rows of the table "<name>.weight" with `rows` rows: (length, width). In a step of task
// decode, the row of its position: (1, width). Throws GraphError if the table has fewer rows.
ValueId positions(GraphBuilder& b, const Form& form, const std::string& name, std::int64_t length,
                  std::int64_t rows);

// x + attention(norm(x)), then x + MLP(norm(x)).
ValueId pre_norm_layer(GraphBuilder& b, const Form& form, const LayerNames& names, ValueId x);

// norm(x + attention(x)), then norm(x + MLP(x)). mask: (N, 1, 1, T), or none.
ValueId post_norm_layer(GraphBuilder& b, const Form& form, const LayerNames& names, ValueId x, ValueId mask);

}  // namespace assay::transformer
