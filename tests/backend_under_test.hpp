// The kernel backend that a program is linked with. What uses it is compiled once and linked with each of
// them.
#pragma once

#include <memory>
#include <string>

#include "harness/engine/kernel_library.hpp"
#include "harness/worker/backend.hpp"

namespace assay::under_test {

// As in backends/<name>.
extern const std::string backend;

// Throws Unavailable with the reason where its device is not here.
std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options);

}  // namespace assay::under_test
