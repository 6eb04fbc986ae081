// Batch norms in our own loops over blocks of channels, as in a residual network, against the
// reference in fp64.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "backends/onednn/backend.hpp"
#include "backends/onednn/library.hpp"
#include "backends/reference/reference_backend.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay::onednn {
namespace {

// 16 channels are one block, whose images the threads share; of 32 each has its own. Every form that fusion
// makes: only ReLU, residual and ReLU, two gradients that meet, a projection, an output with another reader.
Program residual_network(std::int64_t samples) {
  const Workload workload{
      .name = "residual",
      .sample_shape = {16, 8, 8},
      .classes = 10,
      .batch = samples,
      .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
        const auto normalised = [&](const std::string& name, ValueId from, std::int64_t channels,
                                    std::int64_t stride) {
          const Window window{.kernel = 3, .stride = stride, .padding = 1};
          return b.batch_norm(name + ".norm", b.convolution(name, from, channels, window));
        };
        x = b.relu(normalised("first", x, 16, 1));
        x = b.relu(b.add(x, normalised("a2", b.relu(normalised("a1", x, 16, 1)), 16, 1)));
        const ValueId shortcut = b.convolution("shortcut", x, 32, {.kernel = 1, .stride = 2});
        x = b.relu(b.add(shortcut, normalised("b2", b.relu(normalised("b1", x, 32, 2)), 32, 1)));
        x = b.relu(b.add(x, normalised("c2", b.relu(normalised("c1", x, 32, 1)), 32, 1)));
        return b.linear("fc", b.flatten(b.average_pool(x, {.kernel = 4, .stride = 4})), classes);
      }};
  return workload.build(samples);
}

using Answers = std::map<std::string, std::vector<double>>;

Answers answers(Backend& backend, const Program& program, const CompileOptions& options) {
  const auto executable = backend.compile(program, options);
  executable->set_state(testing::parameters(program, 3));
  const testing::Batch batch = testing::batch(program, 7);
  std::vector<HostTensor> tensors = executable->gradients(batch.host());
  for (HostTensor& tensor : executable->state()) tensors.push_back(std::move(tensor));
  std::vector<float> logits(batch.labels.size() * 10);
  executable->evaluate(batch.host(), logits.data());
  Answers found;
  for (const HostTensor& tensor : tensors) {
    std::vector<double>& values = found[tensor.name];
    if (tensor.type.dtype == DType::f64) {
      values.assign(tensor.as<double>().begin(), tensor.as<double>().end());
    } else {
      values.assign(tensor.as<float>().begin(), tensor.as<float>().end());
    }
  }
  found["evaluation"].assign(logits.begin(), logits.end());
  return found;
}

CompileOptions options_of(PrecisionKind precision, int threads) {
  CompileOptions options = testing::options("graph", precision, threads);
  options.gradients = true;
  return options;
}

class Norm : public ::testing::TestWithParam<std::tuple<PrecisionKind, int>> {};

TEST_P(Norm, in_a_residual_network_agrees_with_the_reference_in_fp64) {
  const auto [precision, threads] = GetParam();
  const bool bf16 = precision == PrecisionKind::bf16;
  if (bf16 && !has_bf16()) GTEST_SKIP() << "this CPU has no bf16";
  const Program program = residual_network(6);
  OnednnBackend backend;
  reference::ReferenceBackend oracle;
  const Answers found = answers(backend, program, options_of(precision, threads));
  const Answers expected = answers(oracle, program, options_of(PrecisionKind::fp64, 1));
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    double error = 0, scale = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      error += std::pow(found.at(name)[i] - values[i], 2);
      scale += values[i] * values[i];
    }
    // The gradient of the bias before a batch norm is only rounding.
    EXPECT_LE(std::sqrt(error), (bf16 ? 0.15 : 1e-4) * std::sqrt(scale) + (bf16 ? 3e-2 : 1e-6)) << name;
  }
}

TEST_P(Norm, ends_in_the_same_bits_twice) {
  const auto [precision, threads] = GetParam();
  if (precision == PrecisionKind::bf16 && !has_bf16()) GTEST_SKIP() << "this CPU has no bf16";
  const Program program = residual_network(5);
  OnednnBackend backend;
  EXPECT_EQ(answers(backend, program, options_of(precision, threads)),
            answers(backend, program, options_of(precision, threads)));
}

INSTANTIATE_TEST_SUITE_P(, Norm,
                         ::testing::Combine(::testing::Values(PrecisionKind::fp32, PrecisionKind::bf16),
                                            ::testing::Values(1, 2, 3)),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) + "_t" +
                                  std::to_string(std::get<1>(test.param));
                         });

TEST(NormBlocks, are_those_of_the_convolutions) {
  const Program program = residual_network(4);
  OnednnBackend backend;
  CompileOptions options = testing::options("graph", PrecisionKind::fp32, 1);
  options.profile = true;
  const auto executable = backend.compile(program, options);
  // With AVX2 oneDNN's convolutions choose other layouts for their weights than the optimizer has.
  const bool avx512 = backend.info().settings.at("instruction_set").starts_with("avx512");
  int norms = 0;
  for (const OperatorTime& time : executable->operator_times()) {
    // Reorders of the weights, which the pass to the input needs in another order.
    if (avx512) {
      EXPECT_TRUE(time.op != "reorder" || time.node.ends_with("input_gradient")) << time.node;
    }
    if (!time.op.starts_with("batch_norm")) continue;
    ++norms;
    if (avx512) {
      EXPECT_EQ(time.implementation, "own:block") << time.node;
    }
  }
  EXPECT_EQ(norms, 14);
}

}  // namespace
}  // namespace assay::onednn
