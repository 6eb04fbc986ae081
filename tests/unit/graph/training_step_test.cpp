#include "harness/graph/passes/training_step.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

Program normalised() {
  const auto network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
    const ValueId stem =
        b.relu(b.batch_norm("bn1", b.convolution("conv1", x, 4, {.kernel = 3, .padding = 1}, false)));
    const ValueId branch =
        b.batch_norm("bn2", b.convolution("conv2", stem, 4, {.kernel = 3, .padding = 1}, false));
    const ValueId sum = b.relu(b.add(branch, stem));
    return b.linear("fc", b.flatten(b.max_pool(sum, {.kernel = 2, .stride = 2})), classes);
  };
  return Workload{.name = "block", .sample_shape = {3, 8, 8}, .classes = 5, .network = network}.build(4);
}

std::map<std::string, std::string> updates(const Graph& graph) {
  std::map<std::string, std::string> names;
  for (const Update& update : graph.updates())
    names[graph.value(update.target).name] = graph.value(update.source).name;
  return names;
}

TEST(TrainingStep, updates_every_parameter_and_both_moments_of_adam) {
  const Graph graph = training_step(find_workload("lenet5").build(8), {});
  const auto all = updates(graph);
  EXPECT_EQ(all.size(), 3u * 10u);
  EXPECT_EQ(all.at("conv1.weight"), "conv1.weight.update");
  EXPECT_EQ(all.at("conv1.weight.m"), "conv1.weight.update.new_m");
  EXPECT_EQ(all.at("fc3.bias.v"), "fc3.bias.update.new_v");
  EXPECT_EQ(graph.value(graph.find("fc3.bias.v")).role, Role::state);
  EXPECT_EQ(graph.value(graph.find("fc3.bias.v")).initializer, "zeros");
  EXPECT_EQ(graph.value(graph.find("schedule")).role, Role::schedule);
}

Program sparse_embedding(const std::string& optimizer) {
  const Workload& workload = find_workload("lstm");
  NetworkForm form = workload.form(2);
  form.sample = {6};
  form.sparse_embedding_gradients = true;
  form.optimizer.kind = optimizer;
  return workload.build(form);
}

TEST(TrainingStep, lazy_adam_updates_only_touched_rows_of_tables) {
  const Graph graph = training_step(sparse_embedding("lazy_adam"), {});
  const Node& lazy = graph.node(graph.find_node("embedding.weight.update"));
  EXPECT_EQ(lazy.op->name(), "lazy_adam");
  EXPECT_EQ(graph.value(lazy.inputs[2]).type, (TensorType{DType::f32, {12, 128}}));
  EXPECT_EQ(graph.value(lazy.inputs[3]).type, (TensorType{DType::i32, {12}}));
  EXPECT_EQ(graph.node(graph.find_node("lstm.weight.update")).op->name(), "adam");
  EXPECT_EQ(updates(graph).at("embedding.weight.v"), "embedding.weight.update.new_v");
  EXPECT_EQ(graph.find_node("embedding.weight.dense_gradient"), none) << "the whole table is never made";
}

TEST(TrainingStep, makes_row_sparse_gradients_dense_for_other_optimizers) {
  for (const char* optimizer : {"adam", "sgd"}) {
    const Graph graph = training_step(sparse_embedding(optimizer), {});
    const Node& update = graph.node(graph.find_node("embedding.weight.update"));
    EXPECT_EQ(update.op->name(), optimizer);
    EXPECT_EQ(graph.value(update.inputs[2]).type.shape, (Shape{5000, 128}));
  }
  const Graph checked = training_step(sparse_embedding("lazy_adam"), {.gradients_as_outputs = true});
  EXPECT_EQ(checked.value(checked.output("gradient/embedding.weight")).type.shape, (Shape{5000, 128}));
}

TEST(TrainingStep, decays_only_kernels) {
  for (const char* kind : {"sgd", "rmsprop", "adam"}) {
    Program program = normalised();
    program.optimizer = {.kind = kind, .weight_decay = 0.25};
    const Graph graph = training_step(program, {});
    std::map<std::string, double> decays;
    for (const Node& node : graph.nodes()) {
      if (node.op->name() == kind) decays[node.name] = node.attributes.number("weight_decay");
    }
    EXPECT_EQ(decays, (std::map<std::string, double>{{"bn1.bias.update", 0},
                                                     {"bn1.weight.update", 0},
                                                     {"bn2.bias.update", 0},
                                                     {"bn2.weight.update", 0},
                                                     {"conv1.weight.update", 0.25},
                                                     {"conv2.weight.update", 0.25},
                                                     {"fc.bias.update", 0},
                                                     {"fc.weight.update", 0.25}}))
        << kind;
  }
}

TEST(TrainingStep, AdamwIsAdamWithADecoupledDecayOfKernels) {
  Program program = normalised();
  program.optimizer = {.kind = "adamw", .weight_decay = 0.25};
  const Graph graph = training_step(program, {});
  int kernels = 0;
  for (const Node& node : graph.nodes()) {
    if (!node.name.ends_with(".update")) continue;
    EXPECT_EQ(node.op->name(), "adam");
    EXPECT_TRUE(node.attributes.get<bool>("decoupled")) << node.name;
    kernels += node.attributes.number("weight_decay") == 0.25 ? 1 : 0;
  }
  EXPECT_EQ(kernels, 3);
}

TEST(TrainingStep, ClipsEveryGradientByTheNormOfAll) {
  Program program = find_workload("mlp").build(8);
  program.optimizer->clip_norm = 1.5;
  const Graph graph = training_step(program, {.gradients_as_outputs = true});
  const Node& norm = graph.node(graph.find_node("gradient_norm"));
  EXPECT_EQ(norm.inputs.size(), 4u);
  for (const char* parameter : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}) {
    const std::string name(parameter);
    const Node& update = graph.node(graph.find_node(name + ".update"));
    const Node& clip = graph.node(graph.value(update.inputs[2]).producer);
    EXPECT_EQ(clip.op->name(), "clip");
    EXPECT_EQ(clip.attributes.number("limit"), 1.5);
    EXPECT_EQ(clip.inputs[0], graph.output("gradient/" + name)) << "the check sees the gradient before it";
    EXPECT_EQ(clip.inputs[1], norm.outputs[0]);
  }
  program.optimizer->clip_norm = 0;
  EXPECT_EQ(training_step(program, {}).find_node("gradient_norm"), none);
}

TEST(TrainingStep, ClipsRowSparseGradientsBeforeTheyAreDense) {
  Program sparse = sparse_embedding("sgd");
  sparse.optimizer->clip_norm = 1;
  const Graph graph = training_step(sparse, {.gradients_as_outputs = true});
  const Node& update = graph.node(graph.find_node("embedding.weight.update"));
  const Node& dense = graph.node(graph.value(update.inputs[2]).producer);
  EXPECT_EQ(dense.op->name(), "dense_rows");
  EXPECT_EQ(graph.node(graph.value(dense.inputs[0]).producer).op->name(), "clip");
  EXPECT_NE(graph.output("gradient/embedding.weight"), update.inputs[2]);
  Program lazy = sparse_embedding("lazy_adam");
  lazy.optimizer->clip_norm = 1;
  const Graph step = training_step(lazy, {});
  const Node& touched = step.node(step.find_node("embedding.weight.update"));
  EXPECT_EQ(touched.op->name(), "lazy_adam");
  EXPECT_EQ(step.node(step.value(touched.inputs[2]).producer).op->name(), "clip");
}

TEST(TrainingStep, each_optimizer_keeps_the_moments_that_it_names) {
  Program program = find_workload("mlp").build(8);
  for (const auto& [kind, momentum, moments] :
       {std::tuple{"sgd", 0.9, std::set<std::string>{"fc1.bias.momentum"}},
        std::tuple{"sgd", 0.0, std::set<std::string>{}},
        std::tuple{"rmsprop", 0.9, std::set<std::string>{"fc1.bias.square"}},
        std::tuple{"adam", 0.9, std::set<std::string>{"fc1.bias.m", "fc1.bias.v"}},
        std::tuple{"adamw", 0.9, std::set<std::string>{"fc1.bias.m", "fc1.bias.v"}}}) {
    program.optimizer = {.kind = kind, .momentum = momentum};
    const Graph graph = training_step(program, {});
    std::set<std::string> found;
    for (const ValueId id : graph.with_role(Role::state)) {
      if (graph.value(id).name.starts_with("fc1.bias.")) found.insert(graph.value(id).name);
    }
    EXPECT_EQ(found, moments) << kind;
    EXPECT_EQ(updates(graph).size(), 4 * (1 + moments.size())) << kind;
  }
  program.optimizer->kind = "adamax";
  EXPECT_THROW(training_step(program, {}), GraphError);
}

TEST(TrainingStep, running_statistics_are_updated_and_inference_updates_nothing) {
  const Program program = normalised();
  const auto all = updates(training_step(program, {}));
  EXPECT_EQ(all.at("bn1.running_mean"), "bn1.new_running_mean");
  EXPECT_EQ(all.at("bn2.running_variance"), "bn2.new_running_variance");
  EXPECT_TRUE(inference_step(program, {}).updates().empty());
}

TEST(TrainingStep, only_the_check_gets_gradients_and_logits) {
  const Program program = find_workload("mlp").build(8);
  const Graph plain = training_step(program, {});
  ASSERT_EQ(plain.outputs().size(), 1u);
  EXPECT_EQ(plain.outputs()[0].name, "loss");
  const Graph check = training_step(program, {.gradients_as_outputs = true, .network_outputs = true});
  EXPECT_TRUE(check.has_output("logits"));
  EXPECT_EQ(check.value(check.output("gradient/fc1.weight")).type.shape, (Shape{128, 784}));
}

TEST(TrainingStep, does_not_update_an_unused_parameter) {
  Program program = find_workload("mlp").build(8);
  program.training->add_value("spare", {DType::f32, {3}}, Role::parameter, "zeros");
  const Graph graph = training_step(program, {});
  EXPECT_FALSE(updates(graph).contains("spare"));
  EXPECT_NE(graph.find("spare"), none);
}

TEST(Precision, fp64_leaves_no_f32_anywhere) {
  const TrainingStepOptions options{.precision = precision_of(PrecisionKind::fp64),
                                    .gradients_as_outputs = true};
  for (const Graph& graph :
       {training_step(normalised(), options), inference_step(normalised(), options.precision)}) {
    for (const Value& value : graph.values()) {
      if (value.opaque || value.role == Role::label) continue;
      EXPECT_EQ(value.type.dtype, DType::f64) << value.name;
    }
  }
}

TEST(Precision, MasksOfPaddingHaveTheMasterType) {
  Graph graph("masks");
  GraphBuilder b(graph);
  graph.add_output("mask", b.padding_mask(b.tokens("inputs", {2, 3}), 0));
  for (const auto& [kind, type] :
       {std::pair{PrecisionKind::fp32, DType::f32}, std::pair{PrecisionKind::bf16, DType::f32},
        std::pair{PrecisionKind::fp64, DType::f64}}) {
    const Graph typed = apply_precision(graph, precision_of(kind));
    EXPECT_EQ(typed.value(typed.output("mask")).type, (TensorType{type, {2, 1, 1, 3}}));
    EXPECT_EQ(typed.nodes().size(), 1u);
  }
}

TEST(Precision, CachesHaveTheStorageType) {
  Graph graph("caches");
  const ValueId position = graph.add_value("position", {DType::i32, {1}}, Role::position, "zeros");
  GraphBuilder b(graph, {.step = true, .length = 5, .position = position});
  const ValueId x = b.input("inputs", {2, 1, 3, 4});
  graph.add_output("y", b.attention(x, x, x, {.causal = true}, "mix"));
  for (const auto& [kind, storage, master] : {std::tuple{PrecisionKind::fp32, DType::f32, DType::f32},
                                              {PrecisionKind::bf16, DType::bf16, DType::f32},
                                              {PrecisionKind::fp64, DType::f64, DType::f64}}) {
    const Graph typed = apply_precision(graph, precision_of(kind));
    for (const char* cache : {"mix.keys", "mix.values"}) {
      EXPECT_EQ(typed.value(typed.find(cache)).type, (TensorType{storage, {2, 5, 3, 4}}));
      EXPECT_EQ(typed.value(typed.find(cache)).role, Role::cache);
    }
    EXPECT_EQ(typed.value(typed.find("cache_mask")).type, (TensorType{master, {1, 1, 1, 5}}));
    for (const Update& update : typed.updates())
      EXPECT_EQ(typed.value(update.source).type, typed.value(update.target).type);
  }
}

TEST(Precision, NormsAndAttentionKeepStatisticsInF32) {
  Graph graph("block");
  GraphBuilder b(graph);
  const ValueId x = b.input("inputs", {2, 4, 8});
  const ValueId q = b.reshape(b.linear("query", b.rms_norm("rms", b.layer_norm("norm", x)), 8), {2, 4, 2, 4});
  graph.add_output("y", b.mean_pool(b.reshape(b.attention(q, q, q, {}, "attention"), {2, 4, 8})));
  const Graph typed = apply_precision(graph, precision_of(PrecisionKind::bf16));
  const auto dtype = [&](std::string_view name) { return typed.value(typed.find(name)).type.dtype; };
  for (const char* narrow : {"norm", "rms", "query", "attention"})
    EXPECT_EQ(dtype(narrow), DType::bf16) << narrow;
  for (const char* wide : {"norm.mean", "norm.inverse_deviation", "rms.inverse_root", "attention.logsumexp"})
    EXPECT_EQ(dtype(wide), DType::f32) << wide;
  EXPECT_EQ(typed.find("norm.weight.bf16"), none);
  EXPECT_NE(typed.find("query.weight.bf16"), none);
}

TEST(Precision, fp32_and_tf32_change_nothing) {
  const Program program = normalised();
  for (const PrecisionKind kind : {PrecisionKind::fp32, PrecisionKind::tf32}) {
    const Graph graph = training_step(program, {.precision = precision_of(kind)});
    for (const Node& node : graph.nodes()) EXPECT_NE(node.op->name(), "cast");
  }
}

TEST(Precision, bf16_keeps_master_values_in_f32) {
  const Graph graph = training_step(normalised(), {.precision = precision_of(PrecisionKind::bf16),
                                                   .gradients_as_outputs = true,
                                                   .network_outputs = true});
  for (const Value& value : graph.values()) {
    if (value.role == Role::label || value.role == Role::intermediate) continue;
    EXPECT_EQ(value.type.dtype, DType::f32) << value.name;
  }
  for (const Graph::Output& output : graph.outputs())
    EXPECT_EQ(graph.value(output.value).type.dtype, DType::f32) << output.name;
  const auto dtype = [&](std::string_view name) { return graph.value(graph.find(name)).type.dtype; };
  EXPECT_EQ(dtype("conv1"), DType::bf16);
  EXPECT_EQ(dtype("bn1"), DType::bf16);
  EXPECT_EQ(dtype("bn1.mean"), DType::f32);
  EXPECT_EQ(dtype("fc"), DType::bf16);
  EXPECT_EQ(dtype("loss"), DType::f32);
  EXPECT_EQ(dtype("conv2.weight_gradient"), DType::f32);
  EXPECT_EQ(dtype("conv2.input_gradient"), DType::bf16);
  EXPECT_EQ(dtype("conv1.weight.bf16"), DType::bf16);
  // One cast a weight, though forward and backward both read it.
  EXPECT_EQ(graph.find("conv2.weight.bf16_2"), none);
}

TEST(Precision, bf16_inference_answers_in_f32) {
  const Graph graph = inference_step(find_workload("lenet5").build(2), precision_of(PrecisionKind::bf16));
  EXPECT_EQ(graph.value(graph.output("logits")).type.dtype, DType::f32);
}

TEST(Precision, IsThePolicyOfItsKind) {
  for (const auto& word : words<PrecisionKind>)
    EXPECT_EQ(precision_of(word.value).kind, word.value) << word.text;
  EXPECT_EQ(precision_of(PrecisionKind::bf16).storage, DType::bf16);
  EXPECT_EQ(precision_of(PrecisionKind::bf16).master, DType::f32);
  EXPECT_EQ(precision_of(PrecisionKind::fp64).master, DType::f64);
  EXPECT_TRUE(precision_of(PrecisionKind::tf32).tf32);
  EXPECT_FALSE(precision_of(PrecisionKind::fp32).tf32);
}

}  // namespace
}  // namespace assay
