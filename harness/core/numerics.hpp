// How exact numbers are, and how far two tensors are apart.
#pragma once

#include <span>

#include "harness/core/tensor.hpp"

namespace assay {

// Half the distance from one to the next larger number: 2^-24 for f32, 2^-9 for bf16. 0 for integers.
double unit_roundoff(DType dtype);

struct ErrorNorms {
  double max = 0;  // largest absolute error
  double l2 = 0;   // relative L2 error
};

// max |got - exact| and ||got - exact|| / ||exact||; absolute where exact is all zero. Both are infinite if an
// element of the difference is not finite. The two have the same length.
ErrorNorms error_norms(std::span<const double> got, std::span<const double> exact);

}  // namespace assay
