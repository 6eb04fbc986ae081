#include "harness/graph/op_reference.hpp"

#include <gtest/gtest.h>

#include <set>

namespace assay {
namespace {

TEST(OperatorReference, every_op_has_a_unique_name_and_a_description) {
  std::set<std::string_view> names;
  for (const Op* op : all_ops()) {
    EXPECT_TRUE(names.insert(op->name()).second) << op->name();
    EXPECT_GE(op->contract().size(), 20u) << op->name();
    EXPECT_FALSE(op->results().empty()) << op->name();
    EXPECT_EQ(&find_op(op->name()), op);
  }
}

TEST(OperatorReference, in_place_pairs_name_operands_and_results_that_exist) {
  for (const Op* op : all_ops()) {
    for (const InPlace& pair : op->in_place()) {
      EXPECT_LT(static_cast<std::size_t>(pair.output), op->results().size()) << op->name();
      EXPECT_LT(static_cast<std::size_t>(pair.input), op->operands().size()) << op->name();
    }
  }
}

TEST(OperatorReference, a_signature_shows_what_is_optional_and_what_repeats) {
  EXPECT_EQ(signature(find_op("convolution")), "convolution(x, weight, [bias]) -> y");
  EXPECT_EQ(signature(find_op("sgd")),
            "sgd(schedule, parameter, gradient, [momentum], ...) -> new_parameter, [new_momentum], ...");
}

}  // namespace
}  // namespace assay
