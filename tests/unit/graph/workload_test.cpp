#include "workloads/workload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/training_step.hpp"

namespace assay {
namespace {

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const ValueId id : graph.with_role(Role::parameter)) count += graph.value(id).type.elements();
  return count;
}

TEST(Workload, each_has_the_parameters_that_its_file_says) {
  for (const Workload& workload : all_workloads())
    EXPECT_EQ(parameter_count(workload.build(2).training.value()), workload.parameters) << workload.name;
}

TEST(Workload, lenet5_has_the_layers_that_its_source_names) {
  const Program program = find_workload("lenet5").build(200);
  const Graph& graph = program.training.value();
  EXPECT_EQ(graph.value(graph.find("conv1")).type.shape, (Shape{200, 6, 24, 24}));
  EXPECT_EQ(graph.value(graph.find("pool1")).type.shape, (Shape{200, 6, 12, 12}));
  EXPECT_EQ(graph.value(graph.find("conv2")).type.shape, (Shape{200, 16, 10, 10}));
  EXPECT_EQ(graph.value(graph.find("flatten")).type.shape, (Shape{200, 400}));
  EXPECT_EQ(graph.value(graph.output("logits")).type.shape, (Shape{200, 10}));
  // 156 + 880 + 48120 + 10164 + 850
  EXPECT_EQ(parameter_count(graph), 60170);
  EXPECT_EQ(parameter_count(program.inference), 60170);
}

TEST(Workload, mlp_has_the_parameters_of_784_128_10) {
  EXPECT_EQ(parameter_count(find_workload("mlp").build(32).training.value()),
            784 * 128 + 128 + 128 * 10 + 10);
}

TEST(Workload, cnn_has_the_parameters_of_its_two_convolutions) {
  EXPECT_EQ(parameter_count(find_workload("cnn").build(32).training.value()),
            64 * 9 + 64 + 32 * 64 * 9 + 32 + 32 * 24 * 24 * 10 + 10);
}

int layers(const Graph& graph, std::string_view op) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += node.op->name() == op;
  return count;
}

TEST(Workload, resnet56_is_the_network_of_the_keras_example) {
  const Graph graph = find_workload("resnet56").build(32).training.value();
  EXPECT_EQ(layers(graph, "convolution"), 55 + 2);  // and the two projections
  EXPECT_EQ(layers(graph, "batch_norm"), 55);
  EXPECT_EQ(graph.value(graph.find("stage1.block9.relu2")).type.shape, (Shape{32, 16, 32, 32}));
  EXPECT_EQ(graph.value(graph.find("stage2.block1.relu2")).type.shape, (Shape{32, 32, 16, 16}));
  EXPECT_EQ(graph.value(graph.find("stage3.block9.relu2")).type.shape, (Shape{32, 64, 8, 8}));
  EXPECT_EQ(graph.value(graph.find("flatten")).type.shape, (Shape{32, 64}));
  // The number of Keras's summary(); 4,064 of them are running statistics.
  EXPECT_EQ(parameter_count(graph), 861770 - 4064);
}

TEST(Workload, Resnet50OfKerasHasABiasInEveryConvolution) {
  const Graph paper = find_workload("resnet50").build(2).training.value();
  const Graph keras = find_workload("resnet50_keras").build(2).training.value();
  EXPECT_EQ(layers(keras, "convolution"), layers(paper, "convolution"));
  EXPECT_EQ(parameter_count(keras) - parameter_count(paper), 53120 / 2)
      << "one for each channel that is normed";
  for (const Node& node : keras.nodes()) {
    if (node.op->name() == "convolution") {
      EXPECT_NE(node.inputs.at(2), none) << node.name;
    }
    if (node.op->name() != "batch_norm") continue;
    EXPECT_DOUBLE_EQ(node.attributes.number("epsilon"), 1e-3) << node.name;
    EXPECT_DOUBLE_EQ(node.attributes.number("momentum"), 0.99) << node.name;
  }
}

TEST(Workload, resnet50_has_the_papers_parameters_at_any_image_size) {
  const Workload& workload = find_workload("resnet50");
  for (const std::int64_t size : {224, 256}) {
    const Graph graph = workload.build(2, {3, size, size}, 1000).training.value();
    EXPECT_EQ(layers(graph, "convolution"), 49 + 4);
    EXPECT_EQ(graph.value(graph.find("pool1")).type.shape, (Shape{2, 64, size / 4, size / 4}));
    EXPECT_EQ(graph.value(graph.find("stage4.block3.relu3")).type.shape,
              (Shape{2, 2048, size / 32, size / 32}));
    EXPECT_EQ(graph.value(graph.find("flatten")).type.shape, (Shape{2, 2048}));
    EXPECT_EQ(parameter_count(graph), 25557032);
  }
  EXPECT_THROW(workload.build(2, {3, 224, 160}, 1000), GraphError);
}

TEST(Workload, lstm_has_one_bias_and_takes_tokens) {
  const Program program = find_workload("lstm").build(32);
  EXPECT_EQ(parameter_count(program.training.value()),
            5000 * 128 + 512 * 128 + 512 * 128 + 512 + 2 * 128 + 2);
  EXPECT_EQ(program.training->value(program.training->find("inputs")).type,
            (TensorType{DType::i32, {32, 500}}));
}

TEST(Workload, cifar10_cnn_has_the_layers_of_the_keras_example) {
  const Graph graph = find_workload("cifar10-cnn").build(256).training.value();
  EXPECT_EQ(graph.value(graph.find("dropout1")).type.shape, (Shape{256, 32, 15, 15}));
  EXPECT_EQ(graph.value(graph.find("dropout2")).type.shape, (Shape{256, 64, 6, 6}));
  EXPECT_EQ(graph.value(graph.find("dropout3.mask")).type.shape, (Shape{256, 512}));
  EXPECT_EQ(parameter_count(graph), 1250858);  // what Keras's summary() says of it
}

TEST(Workload, convnet_benchmarks_have_the_papers_parameters) {
  EXPECT_EQ(parameter_count(find_workload("alexnet").build(2).training.value()), 61100840);
  EXPECT_EQ(parameter_count(find_workload("vgg_a").build(2).training.value()), 132863336);
  EXPECT_EQ(parameter_count(find_workload("overfeat").build(2).training.value()), 145920872);
}

TEST(Workload, googlenet_has_the_layers_of_the_table_in_convnet_benchmarks) {
  const Graph graph = find_workload("googlenet").build(2).training.value();
  EXPECT_EQ(layers(graph, "convolution"), 3 + 9 * 6);
  EXPECT_EQ(layers(graph, "concat"), 9);
  EXPECT_EQ(graph.value(graph.find("inception3a.concat")).type.shape, (Shape{2, 256, 28, 28}));
  EXPECT_EQ(graph.value(graph.find("inception3b.concat")).type.shape, (Shape{2, 480, 28, 28}));
  EXPECT_EQ(graph.value(graph.find("inception4e.concat")).type.shape, (Shape{2, 832, 14, 14}));
  EXPECT_EQ(graph.value(graph.find("inception5b.concat")).type.shape, (Shape{2, 1024, 7, 7}));
  EXPECT_EQ(graph.value(graph.find("flatten")).type.shape, (Shape{2, 1024}));
  EXPECT_EQ(parameter_count(graph), 6998552);
}

TEST(Workload, GooglenetBnNormalisesEveryConvolution) {
  const Graph graph = find_workload("googlenet_bn").build(2).training.value();
  EXPECT_EQ(layers(graph, "convolution"), 3 + 9 * 6);
  EXPECT_EQ(layers(graph, "batch_norm"), layers(graph, "convolution"));
  EXPECT_EQ(graph.find("conv1.bias"), none);
  EXPECT_EQ(graph.value(graph.find("inception5b.concat")).type.shape, (Shape{2, 1024, 7, 7}));
}

std::int64_t layers_of(std::string_view workload, std::string_view op) {
  return layers(find_workload(workload).build(2).training.value(), op);
}

TEST(Workload, VitTinyHasTheParametersOfTwelveLayersAndSixtyFourTokens) {
  const Graph graph = find_workload("vit-tiny").build(2).training.value();
  EXPECT_EQ(graph.value(graph.find("tokens")).type.shape, (Shape{2, 64, 192}));
  EXPECT_EQ(graph.value(graph.find("positions.weight")).type.shape, (Shape{64, 192}));
  EXPECT_EQ(layers(graph, "attention"), 12);
  EXPECT_EQ(layers(graph, "layer_norm"), 2 * 12 + 1);
  EXPECT_EQ(parameter_count(graph), 5362378);
  EXPECT_THROW(find_workload("vit-tiny").build(2, {3, 30, 30}, 10), GraphError);
}

TEST(Workload, MinilmHasTheParametersOfItsPublishedFileAndAHead) {
  const Graph graph = find_workload("minilm").build(2).training.value();
  // BertModel with 6 layers of width 384 has 22713216 parameters, its pooler included.
  constexpr std::int64_t pooler = 384 * 384 + 384, head = 2 * 384 + 2;
  EXPECT_EQ(parameter_count(graph), 22713216 - pooler + head);
  EXPECT_EQ(layers_of("minilm", "attention"), 6);
  EXPECT_EQ(layers_of("minilm", "layer_norm"), 2 * 6 + 1);
  for (const Node& node : graph.nodes()) {
    if (node.op->name() == "layer_norm") {
      EXPECT_DOUBLE_EQ(node.attributes.number("epsilon"), 1e-12) << node.name;
    }
    if (node.op->name() == "gelu") {
      EXPECT_EQ(node.attributes.get<std::string>("approximate"), "none") << node.name;
    }
    if (node.op->name() == "attention") {
      EXPECT_EQ(node.inputs.at(3), graph.find("mask")) << node.name;
    }
  }
}

TEST(Workload, BertBaseHasThePapersParametersWithoutThePooler) {
  constexpr std::int64_t pooler = 768 * 768 + 768, head = 2 * 768 + 2;
  EXPECT_EQ(parameter_count(find_workload("bert-base").build(2).training.value()), 109482240 - pooler + head);
}

TEST(Workload, EncodersTakeShorterTextsAndRefuseLongerOnesThanTheirTable) {
  for (const char* name : {"minilm", "bert-base"}) {
    const Workload& workload = find_workload(name);
    const Graph graph = workload.build(2, {512}, 2).training.value();
    EXPECT_EQ(graph.value(graph.find("embeddings.sum2")).type.shape[1], 512);
    EXPECT_EQ(parameter_count(graph), parameter_count(workload.build(2, {16}, 2).training.value()));
    EXPECT_THROW(workload.build(2, {513}, 2), GraphError);
  }
}

TEST(Workload, GptTiesItsHeadToTheTableAndHasALabelAtEveryPosition) {
  for (const char* name : {"nanogpt", "gpt2-small"}) {
    const Workload& workload = find_workload(name);
    const Graph graph = workload.build(2).training.value();
    const Shape logits = {2, workload.sample_shape[0], workload.classes};
    EXPECT_EQ(graph.value(graph.output("logits")).type.shape, logits);
    EXPECT_EQ(graph.value(graph.find("labels")).type.shape, (Shape{2, workload.sample_shape[0]}));
    const Node& head = graph.node(graph.find_node("lm_head"));
    EXPECT_EQ(head.inputs.at(1), graph.find("wte.weight"));
    for (const Node& node : graph.nodes()) {
      if (node.op->name() != "attention") continue;
      EXPECT_TRUE(node.attributes.get<bool>("causal")) << node.name;
    }
  }
  EXPECT_EQ(layers_of("nanogpt", "attention"), 4);
  EXPECT_EQ(layers_of("gpt2-small", "attention"), 12);
}

TEST(Workload, NanogptHasNoBiasInItsLinearLayersAndGpt2HasThePapersParameters) {
  const Graph nanogpt = find_workload("nanogpt").build(2).training.value();
  for (const Node& node : nanogpt.nodes()) {
    if (node.op->name() != "linear") continue;
    EXPECT_EQ(node.inputs.at(2), none) << node.name;
  }
  EXPECT_EQ(parameter_count(find_workload("gpt2-small").build(2).training.value()), 124439808);
}

TEST(Workload, every_program_is_complete) {
  for (const Workload& workload : all_workloads())
    EXPECT_NO_THROW(check_program(workload.build(2))) << workload.name;
}

TEST(Workload, WithoutTrainingHasOnlyTheGraphOfInference) {
  for (const Workload& workload : all_workloads()) {
    SCOPED_TRACE(workload.name);
    const Program program = workload.build(workload.form(2, Task::infer)), trained = workload.build(2);
    EXPECT_NO_THROW(check_program(program));
    EXPECT_FALSE(program.training || program.optimizer);
    EXPECT_EQ(to_json(program.inference), to_json(trained.inference));
    EXPECT_THROW(training_step(program, {}), GraphError);
    EXPECT_THROW(program.graph(Task::train), GraphError);
  }
}

TEST(Workload, a_misspelt_name_is_answered_with_the_nearest) {
  try {
    find_workload("lenet");
    FAIL();
  } catch (const GraphError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'lenet5'?"));
  }
}

TEST(Workload, refuses_a_batch_below_one_and_images_that_are_too_small) {
  EXPECT_THROW(find_workload("mlp").build(0), GraphError);
  EXPECT_THROW(find_workload("lenet5").build(4, {1, 6, 6}, 10), GraphError);
  EXPECT_THROW(find_workload("lenet5").build(INT64_MAX), GraphError);
}

}  // namespace
}  // namespace assay
