// The ops of this build, each in a file of its own.
#pragma once

#include "harness/graph/op.hpp"

namespace assay {

const Op& convolution_op();
const Op& convolution_input_gradient_op();
const Op& convolution_weight_gradient_op();
const Op& linear_op();
const Op& linear_input_gradient_op();
const Op& linear_weight_gradient_op();
const Op& relu_op();
const Op& relu_gradient_op();
const Op& sigmoid_op();
const Op& sigmoid_gradient_op();
const Op& tanh_op();
const Op& tanh_gradient_op();
const Op& softplus_op();
const Op& softplus_gradient_op();
const Op& softsign_op();
const Op& softsign_gradient_op();
const Op& average_pool_op();
const Op& average_pool_gradient_op();
const Op& max_pool_op();
const Op& max_pool_gradient_op();
const Op& flatten_op();
const Op& reshape_op();
const Op& add_op();
const Op& multiply_op();
const Op& dot_op();
const Op& matmul_op();
const Op& normalise_op();
const Op& normalise_gradient_op();
const Op& concat_op();
const Op& slice_op();
const Op& slice_gradient_op();
const Op& transpose_op();
const Op& reduce_op();
const Op& reduce_gradient_op();
const Op& softmax_op();
const Op& softmax_gradient_op();
const Op& batch_norm_op();
const Op& batch_norm_gradient_op();
const Op& softmax_cross_entropy_op();
const Op& softmax_cross_entropy_gradient_op();
const Op& dropout_op();
const Op& dropout_mask_op();
const Op& cast_op();
const Op& constant_op();
const Op& embedding_op();
const Op& embedding_gradient_op();
const Op& embedding_row_gradient_op();
const Op& dense_rows_op();
const Op& lstm_op();
const Op& lstm_gradient_op();
const Op& lazy_adam_op();
const Op& from_array_op();
const Op& from_list_op();
const Op& sgd_op();
const Op& rmsprop_op();
const Op& adam_op();

}  // namespace assay
