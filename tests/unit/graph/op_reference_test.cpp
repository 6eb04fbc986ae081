#include "harness/graph/op_reference.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace assay {
namespace {

// ASSAY_DOCS is the folder docs/ of the source tree.
const std::string page = std::string(ASSAY_DOCS) + "/reference/operators.md";

TEST(OperatorReference, the_page_in_docs_agrees_with_the_ops) {
  const char* write = std::getenv("ASSAY_WRITE_DOCS");
  if (write != nullptr && std::string_view(write) == "1") std::ofstream(page) << operator_reference();
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  EXPECT_EQ(text.str(), operator_reference()) << "write it again with ASSAY_WRITE_DOCS=1";
}

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
