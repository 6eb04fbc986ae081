// Fails each test in which the stand-in for CUDA noted a fault.
#include <gtest/gtest.h>

#include "tests/stand_in/stand_in.hpp"

namespace {

class FaultsFail final : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const std::string& fault : assay::stand_in::take_faults()) ADD_FAILURE() << "[stand-in] " << fault;
  }
};

[[maybe_unused]] const bool added = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new FaultsFail);
  return true;
}();

}  // namespace
