// Known differences between frameworks, in numbers computed by hand, on the kernel library that this
// program is linked with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

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
    Program program{Graph("trap"), Graph("trap"), {.kind = "sgd", .momentum = 0}};
    for (const bool training : {true, false}) {
      Graph& graph = training ? program.training : program.inference;
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

const auto modes = ::testing::ValuesIn(under_test::all_modes());
const auto name = [](const auto& mode) { return mode.param; };
INSTANTIATE_TEST_SUITE_P(Modes, Traps, modes, name);
INSTANTIATE_TEST_SUITE_P(Modes, BatchNormTraps, modes, name);

}  // namespace
}  // namespace assay::ops
