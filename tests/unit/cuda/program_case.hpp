// A program in a mode and a precision, as the parameter of a test.
#pragma once

#include <ostream>

#include "harness/core/domain.hpp"

namespace assay::cuda {

struct ProgramCase {
  const char* workload;
  const char* mode;
  PrecisionKind precision;
};
inline void PrintTo(const ProgramCase& c, std::ostream* stream) {
  *stream << c.workload << "_" << c.mode << "_" << to_string(c.precision);
}

}  // namespace assay::cuda
