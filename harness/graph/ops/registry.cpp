#include <fmt/format.h>

#include <array>

#include "harness/core/text.hpp"
#include "harness/graph/ops/op_list.hpp"

namespace assay {

std::span<const Op* const> all_ops() {
  static const std::array ops{&convolution_op(),
                              &convolution_input_gradient_op(),
                              &convolution_weight_gradient_op(),
                              &linear_op(),
                              &linear_input_gradient_op(),
                              &linear_weight_gradient_op(),
                              &relu_op(),
                              &relu_gradient_op(),
                              &sigmoid_op(),
                              &sigmoid_gradient_op(),
                              &tanh_op(),
                              &tanh_gradient_op(),
                              &softplus_op(),
                              &softplus_gradient_op(),
                              &softsign_op(),
                              &softsign_gradient_op(),
                              &average_pool_op(),
                              &average_pool_gradient_op(),
                              &max_pool_op(),
                              &max_pool_gradient_op(),
                              &flatten_op(),
                              &reshape_op(),
                              &add_op(),
                              &multiply_op(),
                              &dot_op(),
                              &matmul_op(),
                              &normalise_op(),
                              &normalise_gradient_op(),
                              &concat_op(),
                              &slice_op(),
                              &slice_gradient_op(),
                              &transpose_op(),
                              &reduce_op(),
                              &reduce_gradient_op(),
                              &softmax_op(),
                              &softmax_gradient_op(),
                              &batch_norm_op(),
                              &batch_norm_gradient_op(),
                              &softmax_cross_entropy_op(),
                              &softmax_cross_entropy_gradient_op(),
                              &dropout_op(),
                              &dropout_mask_op(),
                              &cast_op(),
                              &constant_op(),
                              &embedding_op(),
                              &embedding_gradient_op(),
                              &embedding_row_gradient_op(),
                              &dense_rows_op(),
                              &lstm_op(),
                              &lstm_gradient_op(),
                              &from_array_op(),
                              &from_list_op(),
                              &sgd_op(),
                              &rmsprop_op(),
                              &adam_op(),
                              &lazy_adam_op()};
  return ops;
}

const Op& find_op(std::string_view name) {
  for (const Op* op : all_ops()) {
    if (op->name() == name) return *op;
  }
  std::vector<std::string> known;
  for (const Op* op : all_ops()) known.emplace_back(op->name());
  throw GraphError(fmt::format("'{}' is no op{}", name.substr(0, 40), suggestion(name, known)));
}

}  // namespace assay
