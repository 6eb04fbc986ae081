// The single ops of this build, by kind.
#pragma once

#include <vector>

#include "workloads/ops/op_workload.hpp"

namespace assay {

std::vector<OpWorkload> pointwise_op_workloads();
std::vector<OpWorkload> matrix_op_workloads();
std::vector<OpWorkload> row_op_workloads();
std::vector<OpWorkload> image_op_workloads();
std::vector<OpWorkload> sequence_op_workloads();
std::vector<OpWorkload> shape_op_workloads();

// The sweep of elementwise ops: from 16 to 2^22 elements, at most 16 MiB.
std::vector<std::string> element_sweep();
// Square matrices, from 4 x 4 to 2048 x 2048, at most 16 MiB.
std::vector<std::string> matrix_sweep();

}  // namespace assay
