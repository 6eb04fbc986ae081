// cuDNN's engines for the convolutions, batch norms and attentions of our networks, on GPUs that are not here. The heuristic, the checks of
// support and the compilation of kernels run as on the GPU; whether an engine is fast, or runs at all, only the
// GPU says.
//
// gpus/*.json describe the devices as cuDNN reads them (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION): H100, A100
// and B200 by OpenXLA's target specifications, the RTX 4090 by NVIDIA's data sheet, and H200 by cuda_gpu_test on
// one.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/gpu/attention.hpp"
#include "backends/cuda/gpu/convolution.hpp"
#include "backends/cuda/gpu/frontend.hpp"
#include "backends/cuda/gpu/lstm.hpp"
#include "backends/cuda/gpu/matmul.hpp"
#include "backends/cuda/gpu/norm.hpp"
#include "backends/cuda/gpu/pointwise_graph.hpp"
#include "backends/cuda/library.hpp"
#include "harness/engine/lowered_graph.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "tests/nightly.hpp"
#include "tests/unit/cuda/device_without_work.hpp"
#include "workloads/workload.hpp"

namespace assay::cuda {
namespace {

struct GpuFile {
  const char* file;
  int architecture;
};
void PrintTo(const GpuFile& gpu, std::ostream* stream) { *stream << gpu.file; }

Target target_of(const GpuFile& gpu) {
  std::ifstream file(fmt::format("{}/{}.json", ASSAY_GPUS, gpu.file), std::ios::binary);
  const std::vector<std::uint8_t> text{std::istreambuf_iterator<char>(file), {}};
  auto properties = std::make_shared<cudnn_frontend::DeviceProperties>();
  check_frontend("read a device's description", properties->deserialize(text));
  Target target;
  target.properties = std::move(properties);
  target.architecture = gpu.architecture;
  return target;
}

// What a training and an inference step of a network, or of all, ask of the libraries, each once.
Work work_of_networks(PrecisionKind kind, const char* only) {
  const Precision precision = precision_of(kind);
  Work work;
  CudaLibrary library(std::make_unique<DeviceWithoutWork>(work), kind == PrecisionKind::tf32);
  for (const Workload& workload : all_workloads()) {
    if (only != nullptr && workload.name != std::string(only)) continue;
    const Program program = workload.build(workload.batch);
    lower(training_step(program, {precision, false, false}), library, {});
    lower(inference_step(program, precision), library, {});
  }
  return work;
}

const bool all_networks = nightly();  // planning all takes minutes
const char* const planned_network = all_networks ? nullptr : "lenet5";

std::string describe(const ConvolutionSpec& s) {
  const char* kind = s.kind == ConvolutionSpec::Kind::forward          ? "forward"
                     : s.kind == ConvolutionSpec::Kind::input_gradient ? "input gradient"
                                                                       : "weight gradient";
  return fmt::format("{}{}{} x ({}, {}, {}, {}) weight ({}, {}, {}) stride {} {}", kind,
                     s.bias ? " bias" : "", s.relu ? " relu" : "", s.n, s.c, s.h, s.w, s.k, s.r, s.s,
                     s.rows.stride, to_string(s.operands));
}

// What a version of cuDNN chose for a GPU when it was recorded, so that a change of cuDNN, or of what we ask of it, shows.
// With $ASSAY_RECORD_PLANS the record is written instead.
void compare_with_record(const GpuFile& gpu, const std::string& chosen) {
  const std::string file = fmt::format("{}/{}-cudnn-{}.txt", ASSAY_PLANS, gpu.file, cudnnGetVersion());
  if (std::getenv("ASSAY_RECORD_PLANS") != nullptr) {
    std::ofstream(file) << chosen;
    return;
  }
  std::ifstream record(file);
  if (!record) {
    fmt::print("no record of this cuDNN: ASSAY_RECORD_PLANS=1 makes {}\n", file);
    return;
  }
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(record), {}), chosen) << "differs from " << file;
}

class Plans : public ::testing::TestWithParam<GpuFile> {
 protected:
  // cuDNN finds the driver by its name, which is that of the library that is loaded first.
  static void SetUpTestSuite() {
    ASSERT_NE(::dlopen(ASSAY_NO_DRIVER, RTLD_NOW | RTLD_GLOBAL), nullptr) << ::dlerror();
    fmt::print("cuDNN {}\n", cudnnGetVersion());
  }
};

TEST_P(Plans, ThereIsAnEngineForEachConvolution) {
  if (cudnnGetVersion() < 90800) GTEST_SKIP() << "cuDNN reads a device's description since 9.8";
  const Target target = target_of(GetParam());
  std::string chosen;
  for (const PrecisionKind kind : {PrecisionKind::fp32, PrecisionKind::tf32, PrecisionKind::bf16}) {
    chosen += fmt::format("# {}\n", to_string(kind));
    const std::set<ConvolutionSpec> specs = work_of_networks(kind, planned_network).convolutions;
    ASSERT_FALSE(specs.empty());
    double seconds = 0;
    std::int64_t largest = 0, generated = 0;
    for (const ConvolutionSpec& spec : specs) {
      const PlannedEngine planned = plan_convolution(spec, target);
      chosen +=
          fmt::format("{}: {}, workspace {}\n", describe(spec), planned.engine, planned.workspace_bytes);
      EXPECT_FALSE(planned.engine.empty()) << describe(spec) << ": " << planned.missing;
      // As the backend promises in its settings; more is a result that is widened.
      const std::int64_t narrow = spec.k * spec.c * spec.r * spec.s * 2 + 256;
      EXPECT_LE(planned.workspace_bytes, (std::int64_t{1} << 30) + narrow) << describe(spec);
      seconds += planned.seconds;
      largest = std::max(largest, planned.workspace_bytes);
      generated += planned.is_generated ? 1 : 0;
      fmt::print("{} {}: {}, {} engines, {:.3f} s{}\n", GetParam().file, describe(spec), planned.engine,
                 planned.engines, planned.seconds, planned.is_generated ? ", generated" : "");
    }
    fmt::print(
        "{} {}: {} convolutions, {} of their engines generated, largest workspace {} bytes, {:.1f} s\n",
        GetParam().file, to_string(kind), specs.size(), generated, largest, seconds);
  }
  if (!all_networks) compare_with_record(GetParam(), chosen);
}

TEST_P(Plans, DeterministicConvolutionsHaveAnEngineWithoutTransforms) {
  if (cudnnGetVersion() < 90800) GTEST_SKIP() << "cuDNN reads a device's description since 9.8";
  const Target target = target_of(GetParam());
  for (ConvolutionSpec spec : work_of_networks(PrecisionKind::fp32, "lenet5").convolutions) {
    const std::int64_t all = plan_convolution(spec, target).engines;
    spec.deterministic = true;
    const PlannedEngine planned = plan_convolution(spec, target);
    EXPECT_FALSE(planned.engine.empty()) << describe(spec) << ": " << planned.missing;
    EXPECT_LE(planned.engines, all) << describe(spec);
  }
}

// With the channels last, as they are in bf16 and TF32: in plain fp32 our own kernels run.
TEST_P(Plans, ThereIsAnEngineForEachBatchNorm) {
  if (cudnnGetVersion() < 90800) GTEST_SKIP() << "cuDNN reads a device's description since 9.8";
  const Target target = target_of(GetParam());
  std::set<std::string> forms;
  for (const PrecisionKind kind : {PrecisionKind::bf16, PrecisionKind::tf32}) {
    for (const NormSpec& spec : work_of_networks(kind, all_networks ? nullptr : "resnet56").norms) {
      if (spec.kind == NormSpec::Kind::inference) continue;
      EXPECT_TRUE(spec.channels_last) << text_of(spec);
      EXPECT_TRUE(spec.gate == NormSpec::Gate::none || spec.gate == NormSpec::Gate::mask) << text_of(spec);
      // cuDNN compiles code for each.
      const bool is_new = forms
                              .insert(text_of({.kind = spec.kind,
                                               .added = spec.added,
                                               .relu = spec.relu,
                                               .mask = spec.mask,
                                               .gate = spec.gate,
                                               .total = spec.total}))
                              .second;
      if (!is_new && !all_networks) continue;
      const PlannedEngine planned = plan_norm(spec, target);
      EXPECT_FALSE(planned.engine.empty()) << text_of(spec) << ": " << planned.missing;
      fmt::print("{} {}: {}, {} engines, {:.3f} s\n", GetParam().file, text_of(spec), planned.engine,
                 planned.engines, planned.seconds);
    }
  }
}

TEST_P(Plans, ThereIsAnEngineForEachAttentionWithoutAMask) {
  if (cudnnGetVersion() < 90800) GTEST_SKIP() << "cuDNN reads a device's description since 9.8";
  const Target target = target_of(GetParam());
  int planned_specs = 0;
  std::set<AttentionSpec> specs =
      work_of_networks(PrecisionKind::bf16, all_networks ? nullptr : "nanogpt").attentions;
  AttentionSpec seen_by_all = *specs.begin();  // cuDNN may have that as one operation
  seen_by_all.causal = false;
  specs.insert(seen_by_all);
  for (const AttentionSpec& spec : specs) {
    if (!spec.is_one_graph()) {
      EXPECT_TRUE(spec.has_mask()) << text_of(spec);
      continue;
    }
    const PlannedEngine planned = plan_attention(spec, target);
    EXPECT_FALSE(planned.engine.empty()) << text_of(spec) << ": " << planned.missing;
    ++planned_specs;
    fmt::print("{} {}: {}, {} engines, workspace {}, {:.3f} s\n", GetParam().file, text_of(spec),
               planned.engine, planned.engines, planned.workspace_bytes, planned.seconds);
  }
  EXPECT_GE(planned_specs, 4) << "of a training step two, of an inference one";
}

TEST_P(Plans, ThereIsAnEngineForEachActivationThatOnlyGraphsHave) {
  if (cudnnGetVersion() < 90800) GTEST_SKIP() << "cuDNN reads a device's description since 9.8";
  const Target target = target_of(GetParam());
  std::vector<Shape> shapes{{2, 3, 5, 5}};  // cuDNN compiles a kernel for each
  if (nightly()) shapes.insert(shapes.end(), {Shape{16}, Shape{12, 1}});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Shape& shape : shapes) {
      for (const Activation kind : {Activation::softplus, Activation::softsign}) {
        for (const bool gradient : {false, true})
          EXPECT_NE(plan_pointwise_graph(kind, gradient, packed(dtype, shape), target), nullptr);
      }
    }
  }
}

// Host code of the libraries, without any GPU.
TEST(Descriptions, OfTheProductsOfAllNetworksAreAccepted) {
  for (const PrecisionKind kind : {PrecisionKind::fp32, PrecisionKind::tf32, PrecisionKind::bf16}) {
    const Work work = work_of_networks(kind, nullptr);
    EXPECT_GT(work.products.size(), 100U);
    for (const MatmulSpec& spec : work.products) EXPECT_NO_THROW(describe_product(spec));
  }
}

TEST(Descriptions, OfAnLstmAreAcceptedInEachFormThatIsTried) {
  const std::vector<std::string> wide{"standard", "persistent_small", "persistent", "standard_step_major"};
  for (const PrecisionKind kind : {PrecisionKind::fp32, PrecisionKind::tf32, PrecisionKind::bf16}) {
    const Work work = work_of_networks(kind, nullptr);
    EXPECT_FALSE(work.lstms.empty());
    for (const LstmSpec& spec : work.lstms) {
      const std::vector<std::string> found = lstm_forms(spec);
      for (const std::string& form : wide)
        EXPECT_TRUE(std::ranges::count(found, form) == 1) << form << ' ' << to_string(spec.operands);
      EXPECT_EQ(std::ranges::count(found, "persistent_small_f32"), kind == PrecisionKind::bf16 ? 1 : 0);
    }
  }
}

std::vector<GpuFile> gpus() {
  if (!nightly()) return {{"h100", 90}};
  return {{"h100", 90}, {"h200", 90}, {"a100", 80}, {"b200", 100}, {"rtx4090", 89}};
}

INSTANTIATE_TEST_SUITE_P(Gpus, Plans, ::testing::ValuesIn(gpus()),
                         [](const auto& test) { return std::string(test.param.file); });

}  // namespace
}  // namespace assay::cuda
