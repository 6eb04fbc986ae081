// The rows of the suite that are in separate files; op_cases.cpp joins them.
#pragma once

#include <vector>

#include "tests/ops/op_case.hpp"

namespace assay::ops {

void add_activation_cases(std::vector<OpCase>& rows);  // every function of one tensor
void add_binary_cases(std::vector<OpCase>& rows);      // add, subtract, multiply, divide
void add_product_cases(std::vector<OpCase>& rows);     // dot, matmul
void add_reduce_cases(std::vector<OpCase>& rows);      // reduce, normalise, softmax
void add_move_cases(std::vector<OpCase>& rows);        // concat, slice, transpose

// layer_norm, rms_norm, attention, rotary, padding_mask, mean_pool, clipping, the ops of task decode;
// linear and the loss over more dimensions
void add_transformer_cases(std::vector<OpCase>& rows);

}  // namespace assay::ops
