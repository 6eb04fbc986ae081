#include "tests/backend_under_test.hpp"

#define ASSAY_STRING_OF(name) #name
#define ASSAY_STRING(name) ASSAY_STRING_OF(name)

// The symbol that a backend exports in addition to its worker.
namespace assay::ASSAY_BACKEND_UNDER_TEST {
std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options);
}

namespace assay::under_test {

const std::string backend = ASSAY_STRING(ASSAY_BACKEND_UNDER_TEST);

std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options) {
  return ASSAY_BACKEND_UNDER_TEST::make_kernel_library(options);
}

}  // namespace assay::under_test
