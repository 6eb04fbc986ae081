// The lowering of a step: fused ops, layouts, reorders, one optimizer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/casts.hpp"
#include "backends/cuda/library.hpp"
#include "backends/cuda/primitives/ops.hpp"
#include "harness/engine/lowered_graph.hpp"
#include "harness/engine/memory.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "tests/unit/engine/programs.hpp"
#include "workloads/workload.hpp"

namespace assay::cuda {
namespace {

LoweredGraph lowered(const char* workload, PrecisionKind precision, const char* mode = "graph") {
  CompileOptions options;
  options.mode = mode;
  options.precision = precision_of(precision);
  static std::vector<std::unique_ptr<KernelLibrary>> libraries;  // outlive the kernels
  libraries.push_back(make_kernel_library(options));
  const Program program = find_workload(workload).build(2);
  const bool plain = options.mode == "eager";
  return lower(training_step(program, {options.precision, false, false}), *libraries.back(), {plain, {}});
}

std::int64_t count(const LoweredGraph& graph, const std::string& op) {
  return std::ranges::count(graph.steps, op, &LoweredStep::op);
}

TEST(Lowering, every_workload_has_all_its_kernels) {
  for (const Workload& workload : all_workloads()) {
    const Program program = workload.build(2);
    for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::tf32, PrecisionKind::bf16}) {
      const Graph step = fused(training_step(program, {precision_of(precision), false, false}));
      for (const Node& node : step.nodes()) EXPECT_EQ(reason_against(step, node), "") << workload.name;
      const Graph bare =
          primitives::rewritten(training_step(program, {precision_of(precision), false, false}));
      for (const Node& node : bare.nodes())
        EXPECT_EQ(primitives::reason_against(bare, node), "") << workload.name;
    }
  }
}

TEST(Lowering, updates_all_tensors_in_one_node) {
  for (const char* workload : {"mlp", "lenet5", "cnn"}) {
    const LoweredGraph graph = lowered(workload, PrecisionKind::fp32);
    EXPECT_EQ(count(graph, "adam") + count(graph, "sgd") + count(graph, "rmsprop"), 1) << workload;
  }
}

TEST(Lowering, fuses_the_relu_into_the_op_before_it) {
  const LoweredGraph graph = lowered("cnn", PrecisionKind::bf16);
  EXPECT_EQ(count(graph, "relu"), 0);
  EXPECT_EQ(count(graph, "relu_gradient"), 0);
}

TEST(Lowering, keeps_images_channels_last_on_tensor_cores) {
  for (PrecisionKind precision : {PrecisionKind::bf16, PrecisionKind::tf32}) {
    const LoweredGraph graph = lowered("cnn", precision);
    for (const LoweredStep& step : graph.steps) {
      if (step.op != "convolution") continue;
      const Placed& y = graph.buffers[static_cast<std::size_t>(step.outputs[0])].first;
      EXPECT_EQ(layout_of(y.format), Layout::channels_last) << step.node << " in " << to_string(precision);
    }
    // The flatten in front of the first linear layer and its gradient are all that moves.
    EXPECT_LE(count(graph, "reorder"), 2) << to_string(precision);
  }
}

// A list as an executor makes it, of conversions between these addresses.
struct Conversions {
  explicit Conversions(const std::vector<std::pair<float*, Bf16*>>& places, std::int64_t elements) {
    for (const auto& [from, to] : places) {
      auto kernel = std::make_unique<ParameterCopy>(Stream(), std::vector{elements}, DType::bf16);
      void* const in[] = {from};
      void* const out[] = {to};
      kernel->bind(in, out, nullptr);
      list.push_back({kernel.get(), "cast", "cast", {{{from, 4 * elements}}, {{to, 2 * elements}}}});
      owned.push_back(std::move(kernel));
    }
  }
  void join() { join_neighbours(list, joined); }

  std::vector<Scheduled> list;
  std::vector<std::unique_ptr<Kernel>> owned, joined;
};

TEST(Casts, AreOneLaunchForAllParameters) {
  constexpr std::int64_t elements = 21;  // two vectors and a rest
  constexpr std::size_t tensors = 300;   // more than the parameters of a kernel can name
  alignas(16) static float from[tensors][24];
  alignas(16) static Bf16 to[tensors][24];
  std::vector<std::pair<float*, Bf16*>> places;
  for (std::size_t t = 0; t < tensors; ++t) {
    for (std::size_t e = 0; e < 24; ++e) {
      from[t][e] = static_cast<float>(t * 32 + e);
      to[t][e] = {0x7fff};
    }
    // The last is not a multiple of 16 bytes.
    places.emplace_back(from[t] + (t == tensors - 1 ? 1 : 0), to[t]);
  }
  Conversions casts(places, elements);
  casts.join();
  ASSERT_EQ(casts.list.size(), 1U);
  casts.list[0].kernel->run();
  for (std::size_t t = 0; t < tensors; ++t) {
    for (std::size_t e = 0; e < 24; ++e) {
      const std::uint16_t expected = e < elements ? narrow<Bf16>(places[t].first[e]).bits : 0x7fff;
      ASSERT_EQ(to[t][e].bits, expected) << t << ", " << e;
    }
  }
}

TEST(Casts, StayApartWhereOneWritesWhatAnotherReads) {
  alignas(16) static float memory[64];
  auto* const narrow_memory = reinterpret_cast<Bf16*>(memory);
  // The second writes over what the first has read.
  Conversions casts({{memory, narrow_memory + 64}, {memory + 48, narrow_memory}}, 16);
  casts.join();
  EXPECT_EQ(casts.list.size(), 2U);
  // Not bound yet.
  Conversions unbound({{memory, narrow_memory + 64}, {nullptr, narrow_memory + 96}}, 16);
  unbound.join();
  EXPECT_EQ(unbound.list.size(), 2U);
}

// The rows of several tensors, one after the other: of weights in bf16, and of biases in f32.
TEST(Casts, JoinCopiesOfSeveralTensorsInEachType) {
  alignas(16) static float from[4][24];
  alignas(16) static Bf16 weights[45];
  alignas(16) static float biases[32];
  for (int t = 0; t < 4; ++t)
    for (int e = 0; e < 24; ++e) from[t][e] = static_cast<float>(1 + 24 * t + e) / 7;
  // The second part of the weights is not at a multiple of 16 bytes.
  ParameterCopy of_weights(Stream(), {21, 24}, DType::bf16), of_biases(Stream(), {8, 24}, DType::f32);
  void *const weights_in[] = {from[0], from[1]}, *const weights_out[] = {weights};
  void *const biases_in[] = {from[2], from[3]}, *const biases_out[] = {biases};
  of_weights.bind(weights_in, weights_out, nullptr);
  of_biases.bind(biases_in, biases_out, nullptr);
  const auto scheduled = [](ParameterCopy& copy, std::vector<Bytes> read, Bytes written) {
    return Scheduled{&copy, "copy", "concat", {std::move(read), {written}}};
  };
  std::vector<Scheduled> list{
      scheduled(of_weights, {{from[0], 84}, {from[1], 96}}, {weights, sizeof weights}),
      scheduled(of_biases, {{from[2], 32}, {from[3], 96}}, {biases, sizeof biases})};
  std::vector<std::unique_ptr<Kernel>> joined;
  join_neighbours(list, joined);
  ASSERT_EQ(list.size(), 1U);
  list[0].kernel->run();
  for (int e = 0; e < 45; ++e)
    EXPECT_EQ(weights[e].bits, narrow<Bf16>(e < 21 ? from[0][e] : from[1][e - 21]).bits) << e;
  for (int e = 0; e < 32; ++e) EXPECT_EQ(biases[e], e < 8 ? from[2][e] : from[3][e - 8]) << e;
}

// A graph that clips tensors of these sizes by one norm, or by a norm of their own.
int clips_of(const std::vector<std::int64_t>& sizes, bool one_norm) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId norm = b.parameter("norm", {}, "ones"), other = b.parameter("other", {}, "ones");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    const ValueId x = b.parameter(name, {sizes[i]}, "ones");
    graph.add_output("y" + name, b.apply("clip", {x, one_norm || i % 2 == 0 ? norm : other}, {{"limit", 1.0}},
                                         "clip" + name)[0]);
  }
  const auto library = make_kernel_library(assay::testing::options("graph"));
  LoweredGraph graph_of = lower(graph, *library, {});
  std::vector<Scheduled> list;
  std::vector<Storage> memory;
  for (const Buffer& buffer : graph_of.buffers) memory.emplace_back(buffer.bytes, "a test");
  const auto at = [&](const std::vector<int>& buffers) {
    std::vector<void*> pointers;
    for (const int i : buffers) pointers.push_back(memory[static_cast<std::size_t>(i)].data());
    return pointers;
  };
  for (std::size_t m = 0; m < memory.size(); ++m)
    std::fill_n(static_cast<float*>(memory[m].data()), memory[m].bytes() / 4, 4.0F);
  for (LoweredStep& step : graph_of.steps) {
    step.kernel->bind(at(step.inputs), at(step.outputs), nullptr);
    Touched touched;
    for (void* pointer : at(step.inputs)) touched.read.push_back({pointer, 1});
    for (void* pointer : at(step.outputs)) touched.written.push_back({pointer, 1});
    list.push_back({step.kernel.get(), step.node, step.op, touched});
  }
  library->compact(list);
  for (const Scheduled& entry : list) entry.kernel->run();
  for (const auto& [name, place] : graph_of.outputs) {
    const auto* const y = static_cast<const float*>(memory[static_cast<std::size_t>(place.buffer)].data());
    for (std::int64_t i = 0; i < place.type.elements(); ++i) EXPECT_NEAR(y[i], 1, 1e-5) << name << ' ' << i;
  }
  return static_cast<int>(list.size());
}

TEST(Clips, AreOneKernelForOneNorm) {
  EXPECT_EQ(clips_of({4, 1, 37, 4100}, true), 1);
  EXPECT_EQ(clips_of(std::vector<std::int64_t>(300, 5), true), 1);
  EXPECT_EQ(clips_of({4, 8, 12}, false), 3);
}

TEST(Lowering, moves_nothing_in_strict_fp32_and_in_eager_mode) {
  EXPECT_EQ(count(lowered("cnn", PrecisionKind::fp32), "reorder"), 0);
  EXPECT_EQ(count(lowered("cnn", PrecisionKind::bf16, "eager"), "reorder"), 0);
}

}  // namespace
}  // namespace assay::cuda
