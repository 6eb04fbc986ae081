// Several ranks equal one rank with the whole batch: in threads as ranks, and in processes on MPI.
#include "tests/unit/onednn/ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <tuple>

#include <fmt/format.h>

#include "backends/collectives/mpi.hpp"
#include "backends/onednn/backend.hpp"

namespace assay::onednn::ranks {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAreArray;

// Threads of this process as ranks.
class World {
 public:
  explicit World(int ranks) : size(ranks), barrier(ranks), values(static_cast<std::size_t>(ranks)) {}
  int size;
  std::barrier<> barrier;
  std::vector<float*> values;
  std::int64_t number = 0;
};

class Thread final : public Communicator {
 public:
  Thread(World& world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int world() const override { return world_.size; }
  std::string library() const override { return "threads"; }
  void sum(float* values, std::int64_t count) override {
    world_.values[static_cast<std::size_t>(rank_)] = values;
    world_.barrier.arrive_and_wait();
    std::vector<float> sums(static_cast<std::size_t>(count));
    for (const float* of_rank : world_.values)
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of_rank[i];
    world_.barrier.arrive_and_wait();
    std::ranges::copy(sums, values);
    world_.barrier.arrive_and_wait();
  }
  std::int64_t first(std::int64_t value) override {
    if (rank_ == 0) world_.number = value;
    world_.barrier.arrive_and_wait();
    const std::int64_t common = world_.number;
    world_.barrier.arrive_and_wait();
    return common;
  }
  [[noreturn]] void abort(const std::string& reason) noexcept override {
    std::fprintf(stderr, "%s\n", reason.c_str());
    std::abort();
  }

 private:
  World& world_;
  int rank_;
};

// The results of all ranks.
std::vector<Trained> train_together(const Case& c, int ranks, const std::string& mistake = "none") {
  World world(ranks);
  std::vector<Trained> all(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto communicator = std::make_shared<Mistaken>(std::make_shared<Thread>(world, rank), mistake);
      all[static_cast<std::size_t>(rank)] = train(c, std::make_shared<Exchange>(communicator, c.progress));
    });
  }
  threads.clear();
  return all;
}

void expect_equal_to_one_rank(const Case& c, int ranks) {
  const double limit = bound(c.precision);
  const Trained expected = train(c, nullptr);
  const std::vector<Trained> found = train_together(c, ranks);
  const Distance apart = distance(found[0].state, expected.state);
  EXPECT_LE(apart.value, limit) << apart.tensor;
  for (std::int64_t step = 0; step < steps; ++step) {
    double mean = 0;
    for (const Trained& rank : found) mean += rank.losses[static_cast<std::size_t>(step)] / ranks;
    EXPECT_NEAR(mean, expected.losses[static_cast<std::size_t>(step)], limit * 10) << "step " << step;
  }
  for (const Trained& rank : found) EXPECT_EQ(digest(rank.state), digest(found[0].state));
}

class Ranks : public ::testing::TestWithParam<std::tuple<const char*, const char*, Progress>> {};

TEST_P(Ranks, EqualOneRankWithTheWholeBatch) {
  const auto& [mode, optimizer, progress] = GetParam();
  Case c{.mode = mode, .optimizer = optimizer_of(optimizer), .progress = progress};
  for (const int ranks : {2, 3}) expect_equal_to_one_rank(c, ranks);
  c.optimizer.clip_norm = 0.1;
  expect_equal_to_one_rank(c, 2);
  if (!has_bf16()) return;
  c.precision = PrecisionKind::bf16;
  expect_equal_to_one_rank(c, 2);
}

INSTANTIATE_TEST_SUITE_P(All, Ranks,
                         ::testing::Combine(::testing::Values("graph", "eager", "primitives"),
                                            ::testing::Values("sgd", "adam"),
                                            ::testing::Values(Progress::thread, Progress::step)),
                         [](const auto& given) {
                           return fmt::format(
                               "{}_{}_{}", std::get<0>(given.param), std::get<1>(given.param),
                               std::get<2>(given.param) == Progress::thread ? "thread" : "step");
                         });

TEST(RanksMistake, IsSeen) {
  const Case c;
  const Trained expected = train(c, nullptr);
  for (const char* mistake : {"SumsGradients", "SkipsABucket", "KeepsItsOwnGradients", "IsOneStepLate"}) {
    double apart = 0;
    for (const Trained& rank : train_together(c, 2, mistake))
      apart = std::max(apart, distance(rank.state, expected.state).value);
    EXPECT_GT(apart, 1000 * bound(c.precision)) << mistake;
  }
}

TEST(RanksExchange, IsLeftOutOfStepsOnRequest) {
  for (const char* mode : {"graph", "eager", "primitives"}) {
    const Case c{.mode = mode};
    World world(2);
    std::array<Trained, 2> found;
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
          const auto exchange = std::make_shared<Exchange>(std::make_shared<Thread>(world, rank), c.progress);
          const auto executable = executable_of(c, exchange, {rank, 2});
          executable->gradient_exchange()->set_enabled(false);
          found[static_cast<std::size_t>(rank)] = trained_by(*executable);
        });
      }
    }
    for (int rank = 0; rank < 2; ++rank) {
      const Trained expected = trained_by(*executable_of(c, nullptr, {rank, 2}));
      const Distance apart = distance(found[static_cast<std::size_t>(rank)].state, expected.state);
      EXPECT_LE(apart.value, bound(c.precision)) << mode << ", rank " << rank << ", " << apart.tensor;
    }
    EXPECT_GT(distance(found[0].state, found[1].state).value, bound(c.precision)) << "the rows differ";
  }
}

// Counts what is added up.
class Counting final : public Communicator {
 public:
  int rank() const override { return 0; }
  int world() const override { return 2; }
  std::string library() const override { return "none"; }
  void sum(float*, std::int64_t count) override { counts.push_back(count); }
  std::int64_t first(std::int64_t value) override { return value; }
  [[noreturn]] void abort(const std::string&) noexcept override { std::abort(); }

  std::vector<std::int64_t> counts;
};

TEST(RanksExchange, RunsByItselfWithTheBucketsOfAStep) {
  for (const Progress progress : {Progress::thread, Progress::step}) {
    const auto counting = std::make_shared<Counting>();
    const Case c{.progress = progress};
    const auto executable = executable_of(c, std::make_shared<Exchange>(counting, progress), {0, 2});
    const auto counts_of = [&](const auto& run) {
      counting->counts.clear();
      run();
      return counting->counts;
    };
    const auto step = [&] {
      executable->step(0, 1e-2, 1);
      executable->synchronize();
    };
    GradientExchange* const exchange = executable->gradient_exchange();
    ASSERT_NE(exchange, nullptr);
    const std::vector<std::int64_t> of_step = counts_of(step);
    EXPECT_GT(of_step.size(), 1U);
    EXPECT_EQ(exchange->bytes(), 4 * std::accumulate(of_step.begin(), of_step.end(), std::int64_t{0}));
    for (int i = 0; i < 2; ++i)
      EXPECT_THAT(counts_of([&] { exchange->run(); }), UnorderedElementsAreArray(of_step));
    exchange->set_enabled(false);
    EXPECT_THAT(counts_of(step), IsEmpty());
    exchange->set_enabled(true);
    EXPECT_EQ(counts_of(step), of_step);
  }
}

TEST(RanksExchange, IsNothingForOneRank) {
  EXPECT_EQ(executable_of({}, nullptr, {})->gradient_exchange(), nullptr);
}

class Failing final : public Communicator {
 public:
  int rank() const override { return 0; }
  int world() const override { return 2; }
  std::string library() const override { return "none"; }
  void sum(float*, std::int64_t) override { throw std::runtime_error("[ranks] rank 1 is gone"); }
  std::int64_t first(std::int64_t value) override { return value; }
  [[noreturn]] void abort(const std::string&) noexcept override { std::abort(); }
};

TEST(RanksFailure, EndsTheStepWithTheReason) {
  for (const Progress progress : {Progress::thread, Progress::step}) {
    const auto exchange = std::make_shared<Exchange>(std::make_shared<Failing>(), progress);
    EXPECT_THAT([&] { train({}, exchange); }, ThrowsMessage<std::runtime_error>(HasSubstr("rank 1 is gone")));
  }
}

class OtherLayouts final : public Communicator {
 public:
  int rank() const override { return 1; }
  int world() const override { return 2; }
  std::string library() const override { return "none"; }
  void sum(float*, std::int64_t) override {}
  std::int64_t first(std::int64_t) override { return 1; }
  [[noreturn]] void abort(const std::string&) noexcept override { std::abort(); }
};

TEST(RanksFailure, OfOtherLayoutsIsFoundBeforeTheFirstStep) {
  const auto exchange = std::make_shared<Exchange>(std::make_shared<OtherLayouts>());
  EXPECT_THAT([&] { train({}, exchange); },
              ThrowsMessage<std::runtime_error>(HasSubstr("different layouts")));
}

TEST(RanksOfBackend, RefuseWhatIsNotExchanged) {
  CompileOptions options = assay::testing::options("graph", PrecisionKind::fp32, 1);
  options.world = 2;
  const Workload& lstm = find_workload("lstm");
  NetworkForm sparse = lstm.form(2);
  sparse.sample = {6};
  sparse.sparse_embedding_gradients = true;
  EXPECT_THAT(OnednnBackend().unsupported(lstm.build(sparse), options), HasSubstr("row-sparse"));
  const Program program = find_workload("lenet5").build(2);
  EXPECT_EQ(OnednnBackend().unsupported(program, options), "");
  options.task = Task::infer;
  EXPECT_THAT(OnednnBackend().unsupported(program, options), HasSubstr("[ranks]"));
}

TEST(RanksOfBackend, AreUnavailableWithoutMpi) {
  CompileOptions options = assay::testing::options("graph", PrecisionKind::fp32, 1);
  options.world = 2;
  OnednnBackend backend(
      [](int, int) -> std::shared_ptr<Communicator> { throw collectives::NoMpi("scripts/setup --mpi"); });
  EXPECT_THAT([&] { backend.compile(find_workload("lenet5").build(2), options); },
              ThrowsMessage<Unavailable>(HasSubstr("scripts/setup --mpi")));
}

// ---- MPI ----

struct Finished {
  int code = 0;
  std::string output;
  double seconds = 0;
};

Finished mpirun(int ranks, const std::string& arguments) {
  // As root, without a core for each rank, and in a container without ptrace.
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none "
      "timeout 120 mpirun --oversubscribe --bind-to none -n {} {} {} 2>&1",
      ranks, ASSAY_MPI_RANK, arguments);
  const auto begin = std::chrono::steady_clock::now();
  FILE* pipe = ::popen(command.c_str(), "r");
  Finished finished;
  std::array<char, 4096> text{};
  while (std::fgets(text.data(), static_cast<int>(text.size()), pipe) != nullptr)
    finished.output += text.data();
  finished.code = WEXITSTATUS(::pclose(pipe));
  finished.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return finished;
}

class OnMpi : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef ASSAY_HAS_MPI
    GTEST_SKIP() << "MPI was missing when this was built: scripts/setup --mpi";
#endif
    if (std::system("command -v mpirun >/dev/null") != 0)
      GTEST_SKIP() << "mpirun is missing: scripts/setup --mpi";
  }
};

TEST_F(OnMpi, RanksEqualOneRankWithTheWholeBatch) {
  for (const char* mode : {"graph", "eager", "primitives"}) {
    const Finished two = mpirun(2, fmt::format("{} fp32 sgd none", mode));
    EXPECT_EQ(two.code, 0) << mode << '\n' << two.output;
    EXPECT_THAT(two.output, HasSubstr("rank 1: "));
  }
  const Finished adam = mpirun(3, "graph fp32 adam none");
  EXPECT_EQ(adam.code, 0) << adam.output;
  if (!has_bf16()) return;
  const Finished narrow = mpirun(2, "graph bf16 sgd none");
  EXPECT_EQ(narrow.code, 0) << narrow.output;
}

TEST_F(OnMpi, MistakesAreSeen) {
  for (const char* mistake : {"SumsGradients", "SkipsABucket", "KeepsItsOwnGradients"}) {
    const Finished found = mpirun(2, fmt::format("graph fp32 sgd {}", mistake));
    EXPECT_EQ(found.code, 1) << mistake << '\n' << found.output;
  }
}

TEST_F(OnMpi, ADeadRankEndsAll) {
  const Finished found = mpirun(2, "graph fp32 sgd dies");
  EXPECT_NE(found.code, 0) << found.output;
  EXPECT_NE(found.code, 124) << "it hung";
  EXPECT_LT(found.seconds, 60) << found.output;
}

TEST_F(OnMpi, AnotherNumberOfRanksIsAnError) {
  const Finished found = mpirun(2, "graph fp32 sgd world");
  EXPECT_EQ(found.code, 3);
  EXPECT_THAT(found.output, HasSubstr("mpirun -n 3"));
}

TEST_F(OnMpi, ALoneErrorIsPrintedBeforeTheOthersAreWaitedFor) {
  const Finished found = mpirun(2, "graph fp32 sgd 'lone world'");
  EXPECT_NE(found.code, 0);
  EXPECT_NE(found.code, 124) << "it hung";
  const std::size_t error = found.output.find("mpirun -n 3"),
                    end = found.output.find("the other ranks did not end");
  EXPECT_LT(error, end) << found.output;
  EXPECT_NE(end, std::string::npos) << "the other rank waits in MPI_Allreduce: " << found.output;
}

TEST_F(OnMpi, WithoutALauncherIsAnError) {
  EXPECT_THAT([] { collectives::join_mpi(0, 2); },
              ThrowsMessage<std::runtime_error>(HasSubstr("mpirun -n 2")));
}

TEST_F(OnMpi, UnderSrunWithoutPmixNamesIt) {
  ::setenv("SLURM_PROCID", "0", 1);
  ::setenv("SLURM_STEP_ID", "3", 1);
  EXPECT_THAT([] { collectives::join_mpi(0, 2); },
              ThrowsMessage<std::runtime_error>(HasSubstr("--launcher-arguments=--mpi=pmix")));
  ::unsetenv("SLURM_PROCID");
  ::unsetenv("SLURM_STEP_ID");
}

}  // namespace
}  // namespace assay::onednn::ranks
