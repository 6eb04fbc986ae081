// Backend cuda as one of several ranks, on the stand-in: the other ranks give a share of what this one gives.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "backends/cuda/gpu/backend.hpp"
#include "backends/cuda/gpu/nccl.hpp"
#include "tests/stand_in/program_case.hpp"
#include "tests/stand_in/scope.hpp"

namespace assay::cuda {
namespace {

using stand_in::Conditions;
using stand_in::Order;
using stand_in::Scope;
using ::testing::HasSubstr;

constexpr std::array orders{Order::at_once, Order::others_last, Order::others_first, Order::shuffled};

// The environment of a rank.
class Rendezvous {
 public:
  Rendezvous() {
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", "29400", 1);
  }
  ~Rendezvous() {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "NCCL_COMM_ID"}) ::unsetenv(name);
  }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
};

// Several buckets, even in a small network.
CompileOptions options_of_rank(const ProgramCase& c, int world) {
  CompileOptions options = options_of(c);
  options.world = world;
  options.buckets = {.first = 1 << 8, .next = std::int64_t{1} << 12};
  return options;
}

Program program_with_sgd(const std::string& workload) {
  Program program = small_program(workload);
  program.optimizer = {.kind = "sgd", .momentum = 0};
  return program;
}

void expect_same_bits(const std::vector<HostTensor>& found, const std::vector<HostTensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].bytes, expected[i].bytes) << expected[i].name;
}

class Ranks : public ::testing::TestWithParam<ProgramCase> {
 protected:
  Rendezvous rendezvous_;
};

TEST_P(Ranks, WithEqualGradientsTrainLikeOne) {
  const Program program = small_program(GetParam().workload);
  std::vector<HostTensor> alone;
  {
    const Scope scope;
    alone = trained(program, options_of_rank(GetParam(), 1));
  }
  for (const Order order : orders) {
    SCOPED_TRACE(name_of(order));
    const Scope scope({.order = order});
    expect_same_bits(trained(program, options_of_rank(GetParam(), 2), nullptr, join_nccl(0, 2)), alone);
  }
}

// The mean of g, 0, 0 and 0 is g/4, with which SGD makes a quarter of the step. All of this is exact.
TEST_P(Ranks, UpdateWithTheMeanOfUnlikeGradients) {
  const Program program = program_with_sgd(GetParam().workload);
  std::vector<HostTensor> alone;
  {
    const Scope scope;
    alone = trained(program, options_of_rank(GetParam(), 1), nullptr, nullptr, 1e-2 / 4);
  }
  const Scope scope({.share_of_other_ranks = 0});
  expect_same_bits(trained(program, options_of_rank(GetParam(), 4), nullptr, join_nccl(0, 4), 1e-2), alone);
}

// The state after three steps. The last one may be without the exchange.
std::vector<HostTensor> after_three_steps(const ProgramCase& c, int world, bool last_is_local) {
  const Program program = program_with_sgd(c.workload);
  const CompileOptions options = options_of_rank(c, world);
  KernelExecutable executable(
      program, options,
      make_kernel_library(options, std::make_shared<Choices>(), world > 1 ? join_nccl(0, world) : nullptr));
  executable.set_state(small_parameters(program));
  executable.stage(0, batch_of(program, 0).host());
  for (int step = 1; step <= 2; ++step) executable.step(0, 0, step);
  if (last_is_local) {
    GradientExchange* const exchange = executable.gradient_exchange();
    std::int64_t elements = 0;
    for (const ValueId v : program.training->with_role(Role::parameter))
      elements += program.training->value(v).type.elements();
    EXPECT_EQ(exchange->bytes(), elements * static_cast<std::int64_t>(sizeof(float)));
    exchange->set_enabled(false);
    exchange->run();
  }
  executable.step(0, 1e-2, 3);
  return executable.state();
}

TEST_P(Ranks, LeaveTheExchangeOutOfAStepToMeasureIt) {
  std::vector<HostTensor> alone;
  {
    const Scope scope;
    alone = after_three_steps(GetParam(), 1, false);
  }
  const Scope scope({.share_of_other_ranks = 0});
  expect_same_bits(after_three_steps(GetParam(), 2, true), alone);
}

INSTANTIATE_TEST_SUITE_P(Small, Ranks,
                         ::testing::Values(ProgramCase{"residual", "graph", PrecisionKind::bf16},
                                           ProgramCase{"residual", "eager", PrecisionKind::fp32},
                                           ProgramCase{"lenet5", "graph", PrecisionKind::fp32},
                                           ProgramCase{"lenet5", "primitives", PrecisionKind::tf32},
                                           ProgramCase{"lstm", "graph", PrecisionKind::fp32}),
                         [](const auto& test) { return ::testing::PrintToString(test.param); });

// What a kernel after a sum reads, of ones that two ranks add up.
float read_after_sum(Order order, bool waits) {
  const Scope scope({.order = order});
  const Rendezvous rendezvous;
  const auto device = open_device({.ranks = join_nccl(0, 2)});
  const Storage values(device->memory(), 4, "a test"), copy(device->memory(), 4, "a test");
  auto* const from = static_cast<float*>(values.data());
  auto* const to = static_cast<float*>(copy.data());
  for_each(device->stream(), std::int64_t{1}, [from](std::int64_t i) { from[i] = 1; });
  device->ranks()->start(from, 1);
  if (waits) device->ranks()->finish(from);
  for_each(device->stream(), std::int64_t{1}, [from, to](std::int64_t i) { to[i] = from[i]; });
  if (!waits) device->ranks()->finish(from);
  float read = 0;
  device->memory().fetch(&read, to, 4);
  return read;
}

TEST(RankSums, AreReadOnceTheyAreComplete) {
  for (const Order order : orders) EXPECT_EQ(read_after_sum(order, true), 2) << name_of(order);
  EXPECT_EQ(read_after_sum(Order::others_last, false), 1) << "the step goes on meanwhile";
}

TEST(RankSums, HaveTheValueOfRankZero) {
  const Scope scope;
  const Rendezvous rendezvous;
  const auto device = open_device({.ranks = join_nccl(0, 2)});
  EXPECT_EQ(device->ranks()->first(7), 7);
}

TEST(RanksOfBackend, AreInTheSettings) {
  const Scope scope;
  const Rendezvous rendezvous;
  CudaBackend backend;
  const auto executable =
      backend.compile(small_program("mlp"), options_of_rank({"", "graph", PrecisionKind::fp32}, 2));
  EXPECT_THAT(backend.info().settings.at("collectives"), HasSubstr("nccl: NCCL 2."));
}

TEST(RanksOfBackend, NeedAnAddress) {
  const Scope scope;
  CudaBackend backend;
  const auto compile = [&] {
    backend.compile(small_program("mlp"), options_of_rank({"", "graph", PrecisionKind::fp32}, 2));
  };
  EXPECT_THAT(compile, ::testing::ThrowsMessage<std::runtime_error>(HasSubstr("MASTER_ADDR")));
}

TEST(RanksOfBackend, OnlyTrainANetwork) {
  const CudaBackend backend;
  CompileOptions options = options_of_rank({"", "graph", PrecisionKind::fp32}, 2);
  options.device = DeviceKind::cuda;
  EXPECT_EQ(backend.unsupported(small_program("mlp"), options), "");
  options.task = Task::infer;
  EXPECT_THAT(backend.unsupported(small_program("mlp"), options), HasSubstr("[ranks]"));
}

}  // namespace
}  // namespace assay::cuda
