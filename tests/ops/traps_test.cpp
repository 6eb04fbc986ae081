// Known differences between frameworks, in numbers computed by hand, on the kernel library that this
// program is linked with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "tests/backend_under_test.hpp"
#include "tests/ops/training_run.hpp"

namespace assay::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

class Traps : public NeedsDevice<::testing::TestWithParam<std::string>> {
 protected:
  // Only the network, followed by a flatten.
  static Program program(const Shape& images, const std::function<ValueId(GraphBuilder&, ValueId)>& layer) {
    Program program{Graph("trap"), Graph("trap"), OptimizerSpec{.kind = "sgd", .momentum = 0}};
    for (const bool training : {true, false}) {
      Graph& graph = training ? program.training.value() : program.inference;
      GraphBuilder b(graph, training);
      const ValueId logits = b.flatten(layer(b, b.input("inputs", images)), "logits");
      graph.add_output("logits", logits);
      if (!training) continue;
      const ValueId labels = b.label("labels", {images.front()});
      graph.add_output("loss", b.softmax_cross_entropy(logits, labels, "loss"));
    }
    return program;
  }

  static CompileOptions options() {
    CompileOptions options = testing::options(GetParam(), PrecisionKind::fp32, 1);
    options.gradients = true;
    return options;
  }

  static KernelExecutable compile(const Program& program) {
    return KernelExecutable(program, options(), under_test::make_kernel_library(options()));
  }

  static HostTensor vector(const std::string& name, const Shape& shape, float value) {
    HostTensor tensor = HostTensor::zeros(name, {DType::f32, shape});
    for (float& element : tensor.as<float>()) element = value;
    return tensor;
  }

  static std::vector<float> answer(const Program& program, const std::vector<HostTensor>& state,
                                   const std::vector<float>& images) {
    KernelExecutable executable = compile(program);
    executable.set_state(state);
    const Shape shape = program.inference.value(program.inference.output("logits")).type.shape;
    std::vector<float> logits(static_cast<std::size_t>(element_count(shape)));
    const std::vector<std::int32_t> labels(static_cast<std::size_t>(shape.front()));
    executable.evaluate({images.data(), labels.data()}, logits.data());
    return logits;
  }

  static std::vector<float> counted() {
    std::vector<float> image(16);
    for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i + 1);
    return image;
  }
};

// Keras's "same" pads such an image only below and at the right, which gives 9, 6, 6, 4.
TEST_P(Traps, a_convolution_of_stride_2_pads_all_four_sides) {
  const Program network = program({1, 1, 4, 4}, [](GraphBuilder& b, ValueId x) {
    return b.convolution("conv", x, 1, {.kernel = 3, .stride = 2, .padding = 1}, false);
  });
  EXPECT_THAT(answer(network, {vector("conv.weight", {1, 1, 3, 3}, 1)}, std::vector<float>(16, 1)),
              ElementsAre(4, 6, 6, 9));
}

// "Same" would give 11, 12, 15, 16.
TEST_P(Traps, a_max_pool_of_stride_2_pads_all_four_sides) {
  const Program network = program({1, 1, 4, 4}, [](GraphBuilder& b, ValueId x) {
    return b.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
  });
  EXPECT_THAT(answer(network, {}, counted()), ElementsAre(6, 8, 14, 16));
}

// Divided by the elements that are in the image, the corners would be 1.
TEST_P(Traps, an_average_pool_divides_by_the_whole_window) {
  const Program network = program({1, 1, 4, 4}, [](GraphBuilder& b, ValueId x) {
    return b.average_pool(x, {.kernel = 4, .stride = 2, .padding = 2});
  });
  const std::vector<float> ones(16, 1);
  EXPECT_THAT(answer(network, {}, ones), ElementsAre(0.25, 0.5, 0.25, 0.5, 1, 0.5, 0.25, 0.5, 0.25));
}

// Four elements 1, 3, 1, 3: the mean is 2, the variance 1 (unbiased: 4 / 3).
class BatchNormTraps : public Traps {
 protected:
  const Program network_ =
      program({2, 1, 1, 2}, [](GraphBuilder& b, ValueId x) { return b.batch_norm("norm", x, 0.75, 0.5); });
  const std::vector<float> images_{1, 3, 1, 3};
  const std::vector<std::int32_t> labels_{0, 1};
  const std::vector<HostTensor> state_{vector("norm.weight", {1}, 2), vector("norm.bias", {1}, 10),
                                       vector("norm.running_mean", {1}, 6),
                                       vector("norm.running_variance", {1}, 5)};
};

TEST_P(BatchNormTraps, epsilon_is_added_to_the_biased_variance_under_the_root) {
  KernelExecutable executable = compile(network_);
  executable.set_state(state_);
  const float step = 2 / std::sqrt(1.5F);
  for (const HostTensor& tensor : executable.gradients({images_.data(), labels_.data()})) {
    if (tensor.name != "logits") continue;
    EXPECT_THAT(tensor.as<float>(), ElementsAre(FloatNear(10 - step, 1e-5F), FloatNear(10 + step, 1e-5F),
                                                FloatNear(10 - step, 1e-5F), FloatNear(10 + step, 1e-5F)));
  }
  const float off = 2 / std::sqrt(5.5F);
  EXPECT_THAT(answer(network_, state_, images_),
              ElementsAre(FloatNear(10 - 5 * off, 1e-5F), FloatNear(10 - 3 * off, 1e-5F),
                          FloatNear(10 - 5 * off, 1e-5F), FloatNear(10 - 3 * off, 1e-5F)));
}

TEST_P(BatchNormTraps, momentum_is_the_old_share_and_the_variance_is_biased) {
  KernelExecutable executable = compile(network_);
  executable.set_state(state_);
  executable.stage(0, {images_.data(), labels_.data()});
  executable.step(0, 0.1, 1);
  const std::map<std::string, float> expected{{"norm.running_mean", 0.75F * 6 + 0.25F * 2},
                                              {"norm.running_variance", 0.75F * 5 + 0.25F * 1}};
  std::size_t seen = 0;
  for (const HostTensor& tensor : executable.state()) {
    const auto wanted = expected.find(tensor.name);
    if (wanted == expected.end()) continue;
    EXPECT_NEAR(tensor.as<float>()[0], wanted->second, 1e-5) << tensor.name;
    ++seen;
  }
  EXPECT_EQ(seen, expected.size());
}

// The ops of transformers, as a network from "inputs" whose logits are the flattened result.
class TransformerTraps : public Traps {
 protected:
  // Skips the test if the backend under test lacks an op.
  static bool has(const Program& program) {
    const CompileOptions wanted = options();
    const auto library = under_test::make_kernel_library(wanted);
    return first_unsupported(program, wanted, *library).empty();
  }
};

TEST_P(TransformerTraps, layer_norm_adds_epsilon_to_the_biased_variance) {
  const Program network =
      program({1, 2}, [](GraphBuilder& b, ValueId x) { return b.layer_norm("norm", x, 0.5); });
  if (!has(network)) GTEST_SKIP() << "no layer_norm";
  const float step = 2 / std::sqrt(1.5F);
  EXPECT_THAT(answer(network, {vector("norm.weight", {2}, 2), vector("norm.bias", {2}, 10)}, {1, 3}),
              ElementsAre(FloatNear(10 - step, 1e-5F), FloatNear(10 + step, 1e-5F)));
}

TEST_P(TransformerTraps, rms_norm_subtracts_no_mean) {
  const Program network =
      program({1, 2}, [](GraphBuilder& b, ValueId x) { return b.rms_norm("norm", x, 0.5); });
  if (!has(network)) GTEST_SKIP() << "no rms_norm";
  const float root = std::sqrt(5.5F);
  EXPECT_THAT(answer(network, {vector("norm.weight", {2}, 2)}, {1, 3}),
              ElementsAre(FloatNear(2 / root, 1e-5F), FloatNear(6 / root, 1e-5F)));
}

TEST_P(TransformerTraps, gelu_has_two_formulas) {
  for (const auto& [approximate, below, above] :
       {std::tuple{"none", -0.158655254F, 0.841344746F}, std::tuple{"tanh", -0.158808009F, 0.841191991F}}) {
    const Program network = program(
        {1, 2}, [&](GraphBuilder& b, ValueId x) { return b.gelu(x, "gelu", std::string(approximate)); });
    if (!has(network)) GTEST_SKIP() << "no gelu";
    EXPECT_THAT(answer(network, {}, {-1, 1}), ElementsAre(FloatNear(below, 1e-6F), FloatNear(above, 1e-6F)))
        << approximate;
  }
}

// Two positions (1, 1, 1, 1) and (2, 2, 2, 2): q k is 4, 8 and 16, halved by 1 / sqrt(4).
TEST_P(TransformerTraps, attention_is_scaled_by_the_root_of_the_width) {
  for (const bool causal : {false, true}) {
    const Program network = program(
        {1, 2, 1, 4}, [&](GraphBuilder& b, ValueId x) { return b.attention(x, x, x, {.causal = causal}); });
    if (!has(network)) GTEST_SKIP() << "no attention";
    const std::vector<float> y = answer(network, {}, {1, 1, 1, 1, 2, 2, 2, 2});
    EXPECT_NEAR(y[0], causal ? 1 : 1.880797078F, 1e-5);
    EXPECT_NEAR(y[7], 1.982013790F, 1e-5);
  }
}

TEST_P(TransformerTraps, rotary_pairs_halves_or_neighbours) {
  const float cosine = std::cos(1.0F), sine = std::sin(1.0F);
  for (const bool interleaved : {false, true}) {
    const Program network =
        program({1, 2, 1, 4}, [&](GraphBuilder& b, ValueId x) { return b.rotary(x, 10000, interleaved); });
    if (!has(network)) GTEST_SKIP() << "no rotary";
    const std::vector<float> y = answer(network, {}, {5, 6, 7, 8, 1, 0, 0, 0});
    EXPECT_THAT(std::vector<float>(y.begin(), y.begin() + 4), ElementsAre(5, 6, 7, 8)) << "position 0";
    EXPECT_NEAR(y[4], cosine, 1e-6);
    EXPECT_NEAR(y[interleaved ? 5 : 6], sine, 1e-6);
    EXPECT_NEAR(y[interleaved ? 6 : 5], 0, 1e-6);
  }
}

// Equal logits of four classes: each label costs log(4).
TEST_P(TransformerTraps, a_loss_is_the_mean_of_the_labels_that_count) {
  Program network{Graph("trap"), Graph("trap"), OptimizerSpec{.kind = "sgd", .momentum = 0}};
  for (const bool training : {true, false}) {
    Graph& graph = training ? network.training.value() : network.inference;
    GraphBuilder b(graph, training);
    const ValueId logits = b.linear("fc", b.input("inputs", {2, 3}), 4, false);
    graph.add_output("logits", logits);
    if (training)
      graph.add_output("loss", b.softmax_cross_entropy(logits, b.label("labels", {2}), "loss", -1));
  }
  if (!has(network)) GTEST_SKIP() << "no ignored labels";
  KernelExecutable executable = compile(network);
  const std::vector<HostTensor> zeros{vector("fc.weight", {4, 3}, 0)};
  executable.set_state(zeros);
  const std::vector<float> inputs(6, 1);
  for (const auto& [first, loss, gradient] :
       {std::tuple{-1, 0.0F, 0.0F}, std::tuple{2, std::log(4.0F), 0.25F}}) {
    const std::vector<std::int32_t> labels{first, -1};
    for (const HostTensor& tensor : executable.gradients({inputs.data(), labels.data()})) {
      if (tensor.name == "loss") {
        EXPECT_NEAR(tensor.as<float>()[0], loss, 1e-5);
      }
      if (tensor.name == "gradient/fc.weight") {
        EXPECT_NEAR(tensor.as<float>()[0], gradient, 1e-5);
      }
    }
  }
}

// One sample of one feature 1, two classes with equal weights 1: both are as likely, so that the gradient of the
// weights is -0.5 for the label, and 0.5 for the other.
class UpdateTraps : public TransformerTraps {
 protected:
  // The weights after one step with learning rate `rate`; empty if the backend lacks an op.
  static std::vector<float> updated(const OptimizerSpec& optimizer, double rate) {
    Program network = program({1, 1}, [](GraphBuilder& b, ValueId x) { return b.linear("fc", x, 2, false); });
    network.optimizer = optimizer;
    if (!has(network)) return {};
    KernelExecutable executable = compile(network);
    const std::vector<HostTensor> ones{vector("fc.weight", {2, 1}, 1)};
    executable.set_state(ones);
    const std::vector<float> input{1};
    const std::vector<std::int32_t> labels{0};
    executable.stage(0, {input.data(), labels.data()});
    executable.step(0, rate, 1);
    for (const HostTensor& tensor : executable.state()) {
      if (tensor.name == "fc.weight") return {tensor.as<float>().begin(), tensor.as<float>().end()};
    }
    return {};
  }
};

// The first step of Adam is lr in the direction of the gradient. With a coupled decay of 0.5 the gradients would
// be 0 and 1.
TEST_P(UpdateTraps, adamw_decays_beside_the_gradient) {
  const std::vector<float> weights = updated({.kind = "adamw", .weight_decay = 0.5}, 0.1);
  if (weights.empty()) GTEST_SKIP() << "no decoupled decay";
  EXPECT_THAT(weights, ElementsAre(FloatNear(1 + 0.1F - 0.05F, 1e-5F), FloatNear(1 - 0.1F - 0.05F, 1e-5F)));
}

TEST_P(UpdateTraps, clipping_scales_all_gradients_to_the_limit) {
  const std::vector<float> weights = updated({.kind = "sgd", .momentum = 0, .clip_norm = 0.5}, 1);
  if (weights.empty()) GTEST_SKIP() << "no clipping";
  const float clipped = 0.5F * 0.5F / (std::sqrt(0.5F) + 1e-6F);
  EXPECT_THAT(weights, ElementsAre(FloatNear(1 + clipped, 1e-6F), FloatNear(1 - clipped, 1e-6F)));
  EXPECT_THAT(updated({.kind = "sgd", .momentum = 0, .clip_norm = 1}, 1),
              ElementsAre(FloatNear(1.5F, 1e-6F), FloatNear(0.5F, 1e-6F)))
      << "the norm is below the limit";
}

const auto modes = ::testing::ValuesIn(under_test::all_modes());
const auto name = [](const auto& mode) { return mode.param; };
INSTANTIATE_TEST_SUITE_P(Modes, Traps, modes, name);
INSTANTIATE_TEST_SUITE_P(Modes, BatchNormTraps, modes, name);
INSTANTIATE_TEST_SUITE_P(Modes, TransformerTraps, modes, name);
INSTANTIATE_TEST_SUITE_P(Modes, UpdateTraps, modes, name);

}  // namespace
}  // namespace assay::ops
