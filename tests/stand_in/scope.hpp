// A part of a test on the stand-in, at whose end nothing may be held and no fault may be noted.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/stand_in/stand_in.hpp"

namespace assay::stand_in {

class Scope {
 public:
  explicit Scope(const Conditions& conditions = {}) { begin(conditions); }
  ~Scope() {
    EXPECT_THAT(take_faults(), ::testing::IsEmpty());
    EXPECT_EQ(held(), "");
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

// For the names of parameterised tests.
inline const char* name_of(Order order) {
  switch (order) {
    case Order::at_once:
      return "at_once";
    case Order::others_last:
      return "others_last";
    case Order::others_first:
      return "others_first";
    case Order::shuffled:
      break;
  }
  return "shuffled";
}

}  // namespace assay::stand_in
