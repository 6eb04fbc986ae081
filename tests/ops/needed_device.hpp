// Tests of a backend whose device may not be here: they skip with the reason, and are counted as skipped.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "harness/engine/kernel_library.hpp"
#include "harness/worker/backend.hpp"
#include "tests/backend_under_test.hpp"

namespace assay::ops {

// Why the backend under test cannot run here; empty when it can.
inline const std::string& missing_device() {
  static const std::string reason = [] {
    try {
      CompileOptions options;
      options.mode = "graph";
      under_test::make_kernel_library(options);
    } catch (const Unavailable& error) {
      return std::string(error.what());
    }
    return std::string();
  }();
  return reason;
}

// A fixture that asks for the device before each of its tests.
template <typename Base>
class NeedsDevice : public Base {
 protected:
  void SetUp() override {
    if (!missing_device().empty()) GTEST_SKIP() << missing_device();
  }
};

}  // namespace assay::ops
