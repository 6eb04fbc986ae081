#include "workloads/ops/op_workload.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "harness/core/error.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "harness/graph/program.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(std::string_view op, std::string_view size) {
  try {
    find_op_workload(op).parse(size);
  } catch (const GraphError& error) {
    return error.what();
  }
  return "";
}

TEST(OpWorkload, reads_a_size_by_its_dimensions_and_writes_it_one_way) {
  const OpWorkload& linear = find_op_workload("op/linear");
  EXPECT_EQ(linear.parse("m3n4k5"), (Dimensions{{"m", 3}, {"n", 4}, {"k", 5}}));
  EXPECT_EQ(linear.parse("k5m3n4"), (Dimensions{{"m", 3}, {"n", 4}, {"k", 5}}));
  EXPECT_EQ(linear.parse("64"), (Dimensions{{"m", 64}, {"n", 64}, {"k", 64}}));
  EXPECT_EQ(linear.canonical("k5m3n4"), "m3n4k5");
  EXPECT_EQ(linear.canonical("64"), "m64");
  EXPECT_EQ(linear.canonical("m64n64k64"), "m64");
  EXPECT_EQ(find_op_workload("op/relu").canonical("4096"), "4096");
  EXPECT_EQ(find_op_workload("op/convolution").canonical("n2c3h8w8k3r3s3p1t1"), "n2c3h8");
}

TEST(OpWorkload, refuses_an_invalid_size_with_an_example) {
  EXPECT_THAT(refusal("op/linear", "m3x4"), HasSubstr("'x' is not a dimension"));
  EXPECT_THAT(refusal("op/linear", "m3m4"), HasSubstr("given twice"));
  EXPECT_THAT(refusal("op/linear", "m"), HasSubstr("a number is missing"));
  EXPECT_THAT(refusal("op/linear", "m0"), HasSubstr("below 1"));
  EXPECT_THAT(refusal("op/linear", "-3"), HasSubstr("not made of digits"));
  EXPECT_THAT(refusal("op/linear", ""), HasSubstr("empty"));
  EXPECT_THAT(refusal("op/linear", "99999999999999999999"), HasSubstr("too large"));
  EXPECT_THAT(refusal("op/linear", "n4"), HasSubstr("'m' is not given"));
  EXPECT_THAT(refusal("op/linear", "n4"), HasSubstr("one is 'm256'"));
  EXPECT_THAT([] { find_op_workload("op/rely"); },
              ::testing::ThrowsMessage<GraphError>(HasSubstr("did you mean 'op/relu'?")));
}

TEST(OpWorkload, is_a_whole_program_at_every_size_of_its_sweep) {
  std::set<std::string> names;
  for (const OpWorkload& op : all_op_workloads()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_TRUE(is_op_workload(op.name));
    EXPECT_THAT(op.sizes, ::testing::Contains(op.default_size)) << op.name;
    for (const std::string& size : op.sizes) {
      SCOPED_TRACE(op.name + " " + size);
      EXPECT_EQ(op.canonical(size), size);
      const Program program = op.program(size);
      EXPECT_TRUE(program.is_op());
      EXPECT_FALSE(op.description.empty());
      EXPECT_EQ(to_json(program_from_json(to_json(program))), to_json(program));
      EXPECT_FALSE(inference_step(program, {}).outputs().empty());
      if (op.differentiable) {
        EXPECT_GT(training_step(program, {}).outputs().size(), program.training->outputs().size());
      }
    }
  }
}

TEST(OpWorkload, has_no_parameters_and_an_input_per_result_gradient) {
  for (const OpWorkload& op : all_op_workloads()) {
    const Program program = op.program(op.sizes.front());
    EXPECT_TRUE(program.inference.with_role(Role::parameter).empty()) << op.name;
    EXPECT_EQ(program.training.has_value(), op.differentiable) << op.name;
    EXPECT_EQ(program.cotangents.size(), op.differentiable ? program.training->outputs().size() : 0)
        << op.name;
  }
}

TEST(OpProgram, places_its_inputs_one_after_the_other) {
  const Program program = find_op_workload("op/linear").program("m3n4k5");
  const auto inputs = packed_inputs(program.inference);
  EXPECT_EQ(inputs.at("x").offset, 0);
  EXPECT_EQ(inputs.at("weight").offset, 15);
  EXPECT_EQ(inputs.at("bias").offset, 35);
  EXPECT_EQ(inputs.at("bias").elements, 4);
  EXPECT_EQ(input_elements(program.inference), 39);
  EXPECT_EQ(packed_inputs(program.training.value()).at("dy").offset, 39);
  EXPECT_EQ(input_elements(program.training.value()), 51);
}

TEST(OpProgram, differentiates_f32_inputs_that_are_not_gradients) {
  const Program program = find_op_workload("op/softmax_cross_entropy").program("n4");
  std::vector<std::string> names;
  for (const ValueId id : differentiated_inputs(program)) names.push_back(program.training->value(id).name);
  EXPECT_THAT(names, ElementsAre("logits"));
  const Graph step = training_step(program, {});
  EXPECT_TRUE(step.has_output("gradient/logits"));
  EXPECT_TRUE(step.has_output("loss"));
}

TEST(OpProgram, AMaskOfAnAttentionHasNoGradient) {
  const auto graph_of = [](bool training) {
    Graph graph("attention");
    GraphBuilder b(graph, training);
    const ValueId q = b.input("q", {2, 3, 2, 4}), k = b.input("k", {2, 5, 2, 4}),
                  v = b.input("v", {2, 5, 2, 4});
    const ValueId mask = b.input("mask", {2, 1, 1, 5});
    graph.add_output("y", b.attention(q, k, v, {.mask = mask}, "y"));
    if (training) b.input("dy", {2, 3, 2, 4});
    return graph;
  };
  const Program program{.training = graph_of(true),
                        .inference = graph_of(false),
                        .cotangents = {{"y", "dy"}},
                        .kind = ProgramKind::op};
  check_program(program);
  std::vector<std::string> names;
  for (const ValueId id : differentiated_inputs(program)) names.push_back(program.training->value(id).name);
  EXPECT_THAT(names, ElementsAre("q", "k", "v"));
  EXPECT_FALSE(training_step(program, {}).has_output("gradient/mask"));
}

TEST(OpProgram, is_refused_where_its_two_graphs_disagree) {
  Program program = find_op_workload("op/relu").program("16");
  program.cotangents["y"] = "nothing";
  EXPECT_THAT([&] { check_program(program); },
              ::testing::ThrowsMessage<GraphError>(HasSubstr("not an input")));
  program = find_op_workload("op/relu").program("16");
  program.training->add_value("p", {DType::f32, {2}}, Role::parameter, "zeros");
  EXPECT_THAT([&] { check_program(program); },
              ::testing::ThrowsMessage<GraphError>(HasSubstr("must be an input")));
  program = find_op_workload("op/relu").program("16");
  program.inference = find_op_workload("op/relu").program("17").inference;
  EXPECT_THAT([&] { check_program(program); },
              ::testing::ThrowsMessage<GraphError>(HasSubstr("differs in the other graph")));
}

}  // namespace
}  // namespace assay
