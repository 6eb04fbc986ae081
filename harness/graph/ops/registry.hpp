// The ops of this build beside the elementwise functions, which have tables: one line each, in the order of the
// lists. Each is a function `const Op& <name>_op()` in a file of this folder.
#pragma once

#include "harness/graph/op.hpp"

#define ASSAY_OPS(X)                \
  X(convolution)                    \
  X(convolution_input_gradient)     \
  X(convolution_weight_gradient)    \
  X(linear)                         \
  X(linear_input_gradient)          \
  X(linear_weight_gradient)         \
  X(average_pool)                   \
  X(average_pool_gradient)          \
  X(max_pool)                       \
  X(max_pool_gradient)              \
  X(flatten)                        \
  X(reshape)                        \
  X(dot)                            \
  X(matmul)                         \
  X(normalise)                      \
  X(normalise_gradient)             \
  X(concat)                         \
  X(slice)                          \
  X(slice_gradient)                 \
  X(transpose)                      \
  X(reduce)                         \
  X(reduce_gradient)                \
  X(softmax)                        \
  X(softmax_gradient)               \
  X(attention)                      \
  X(attention_gradient)             \
  X(rotary)                         \
  X(padding_mask)                   \
  X(tokens_at)                      \
  X(cache_write)                    \
  X(cache_mask)                     \
  X(advance)                        \
  X(mean_pool)                      \
  X(mean_pool_gradient)             \
  X(batch_norm)                     \
  X(batch_norm_gradient)            \
  X(running_statistics)             \
  X(local_response_norm)            \
  X(local_response_norm_gradient)   \
  X(prelu)                          \
  X(prelu_gradient)                 \
  X(layer_norm)                     \
  X(layer_norm_gradient)            \
  X(rms_norm)                       \
  X(rms_norm_gradient)              \
  X(softmax_cross_entropy)          \
  X(softmax_cross_entropy_gradient) \
  X(dropout)                        \
  X(dropout_mask)                   \
  X(cast)                           \
  X(constant)                       \
  X(embedding)                      \
  X(embedding_gradient)             \
  X(embedding_row_gradient)         \
  X(dense_rows)                     \
  X(lstm)                           \
  X(lstm_gradient)                  \
  X(from_array)                     \
  X(from_list)                      \
  X(all_reduce_start)               \
  X(all_reduce_wait)                \
  X(global_norm)                    \
  X(clip)                           \
  X(sgd)                            \
  X(rmsprop)                        \
  X(adam)                           \
  X(lazy_adam)

namespace assay {

#define ASSAY_DECLARE(name) const Op& name##_op();
ASSAY_OPS(ASSAY_DECLARE)
#undef ASSAY_DECLARE

std::span<const Op* const> unary_ops();   // unary.cpp; each with its gradient
std::span<const Op* const> binary_ops();  // binary.cpp

}  // namespace assay
