// What a search for engines leaves: names, and the count of memory.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "backends/cuda/engine_search.hpp"
#include "backends/cuda/own_norm.hpp"
#include "backends/cuda/products.hpp"
#include "tests/stand_in/program_case.hpp"
#include "tests/stand_in/scope.hpp"
#include "tests/temporary_folder.hpp"

namespace assay::cuda {
namespace {

using stand_in::Scope;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// The first evaluation makes kernels of its own, whose trial buffers are not counted; what the steps held is.
TEST(FrameworkPeak, StaysAfterTheSearchOfALateEvaluation) {
  const Scope scope;
  const Program program = small_program("lstm");
  const CompileOptions options = options_of({"lstm", "eager", PrecisionKind::fp32, Search::measured});
  KernelExecutable executable(program, options, make_kernel_library(options));
  executable.set_state(testing::parameters(program, 1));
  testing::Batch batch = testing::batch(program, 1);
  for (std::int32_t& label : batch.labels) label %= 2;
  executable.stage(0, batch.host());
  for (int step = 1; step <= 2; ++step) executable.step(0, 1e-2, step);
  executable.synchronize();
  const std::int64_t before = executable.memory().at("framework_peak");
  std::vector<float> logits(4);
  executable.evaluate(batch.host(), logits.data());
  EXPECT_GE(executable.memory().at("framework_peak"), before);
}

MatmulSpec small_product(bool bare = false) {
  MatmulSpec spec = row_major_product(4, 8, 16, false, false);
  spec.bare = bare;
  return spec;
}

// The bias of a product in bf16 is added to what is rounded already, and the sum is rounded again.
TEST(LtMatmul, IsNotWrongBecauseItsResultIsRoundedTwice) {
  const Scope scope;
  const auto choices = std::make_shared<Choices>();
  MatmulSpec spec = row_major_product(3, 10, 64, false, true);
  spec.operands = spec.result = DType::bf16;
  spec.bias = true;
  EXPECT_THAT(open_device({.choices = choices})->matmul(spec)->name(), EndsWith(":measured"));
  EXPECT_EQ(choices->refused(), "none");
}

TEST(LtMatmul, IsCalledMeasuredOnlyAfterARunOfEachAlgorithm) {
  std::int64_t opened = 0, all = 0;
  {
    const Scope scope;
    const auto device = open_device({});
    opened = stand_in::allocations();
    for (int use = 0; use < 2; ++use) {
      EXPECT_THAT(device->matmul(small_product())->name(), EndsWith(":measured"));
      EXPECT_THAT(device->matmul(small_product(true))->name(), Not(HasSubstr("measured")));
    }
    all = stand_in::allocations();
  }
  ASSERT_GT(all, opened);
  {
    const Scope scope;
    EXPECT_THAT(open_device({.deterministic = true})->matmul(small_product())->name(),
                Not(HasSubstr("measured")));
  }
  std::int64_t unmeasured = 0;
  for (std::int64_t n = opened; n < all; ++n) {
    SCOPED_TRACE(n);
    const Scope scope({.fail_at = n});
    const auto device = open_device({});
    const std::string name = device->matmul(small_product())->name();
    // Without memory the search ends, and the heuristic's first algorithm is taken.
    if (name.find(":measured") == std::string::npos) ++unmeasured;
    EXPECT_EQ(device->matmul(small_product())->name(), name) << "the next use";
  }
  EXPECT_GT(unmeasured, 0);
}

TEST(Searches, LeaveOutAFastEngineThatIsWrong) {
  const Scope scope({.has_wrong_engines = true});
  const auto choices = std::make_shared<Choices>();
  const auto device = open_device({.choices = choices});
  for (const auto kind : {ConvolutionSpec::Kind::forward, ConvolutionSpec::Kind::input_gradient,
                          ConvolutionSpec::Kind::weight_gradient}) {
    ConvolutionSpec spec = small_convolution();
    spec.kind = kind;
    EXPECT_THAT(device->convolution(spec)->name(), AllOf(HasSubstr(":measured"), Not(HasSubstr("eng66"))));
  }
  EXPECT_THAT(choices->refused(), HasSubstr("eng66"));
  EXPECT_THAT(device->matmul(small_product())->name(), Not(HasSubstr("cublasLt:24")));
  EXPECT_THAT(choices->refused(), HasSubstr("cublasLt:24"));
  EXPECT_EQ(choices->fallbacks(), "none");
  EXPECT_THAT(choices->engines(), EndsWith(" of 4"));
}

NormSpec small_norm(NormSpec::Kind kind, DType dtype) {
  NormSpec spec;
  spec.kind = kind;
  spec.n = 2;
  spec.c = 8;
  spec.h = spec.w = 4;
  spec.channels_last = true;
  spec.operands = dtype;
  spec.added = true;
  if (kind == NormSpec::Kind::forward) {
    spec.relu = spec.mask = true;
    spec.epsilon = 1e-3F;
  } else {
    spec.gate = NormSpec::Gate::mask;
    spec.total = true;
  }
  return spec;
}

// The operands of a norm, in memory of its own: the same noise each time.
class NormRun {
 public:
  NormRun(Device& device, const NormSpec& spec) : device_(device), spec_(spec) {
    const std::int64_t all = spec.elements(), channels = spec.c;
    NormOperands& at = operands_;
    at.x = buffer(all, spec.operands);
    at.added = buffer(all, spec.operands);
    at.dy = buffer(all, spec.operands);
    at.y = buffer(all, spec.operands);
    at.dx = buffer(all, spec.operands);
    at.dy_total = buffer(all, spec.operands);
    at.mask = static_cast<std::uint8_t*>(buffer(all / 32, DType::f32));
    for (const float** vector : {&at.weight, &at.bias})
      *vector = static_cast<float*>(buffer(channels, DType::f32));
    for (float** vector : {&at.mean, &at.inverse_std, &at.dweight, &at.dbias})
      *vector = static_cast<float*>(buffer(channels, DType::f32));
  }
  void run(Norm& norm) {
    const Storage workspace(device_.memory(), norm.workspace_bytes(), "a test");
    norm.run(operands_, workspace.data());
    device_.synchronize();
  }
  std::vector<std::uint8_t> mask() const {
    std::vector<std::uint8_t> bits(static_cast<std::size_t>(spec_.mask_bytes()));
    device_.memory().fetch(bits.data(), operands_.mask, spec_.mask_bytes());
    return bits;
  }
  // The largest distance of a result from that of another run, in the 2-norm.
  double distance(const NormRun& other) const {
    const auto of = [&](const void* mine, const void* theirs, std::int64_t elements, DType dtype) {
      return relative_distance(device_.stream(), device_.memory(), dtype, mine, theirs, elements);
    };
    const NormOperands &a = operands_, &b = other.operands_;
    double largest = 0;
    for (const auto& [mine, theirs] : {std::pair{a.y, b.y}, {a.dx, b.dx}, {a.dy_total, b.dy_total}})
      largest = std::max(largest, of(mine, theirs, spec_.elements(), spec_.operands));
    for (const auto& [mine, theirs] : {std::pair{a.mean, b.mean},
                                       {a.inverse_std, b.inverse_std},
                                       {a.dweight, b.dweight},
                                       {a.dbias, b.dbias}})
      largest = std::max(largest, of(mine, theirs, spec_.c, DType::f32));
    return largest;
  }

 private:
  void* buffer(std::int64_t elements, DType dtype) { return buffers_.add(elements, dtype); }

  Device& device_;
  NormSpec spec_;
  NoiseBuffers buffers_{device_.memory(), "a test"};
  NormOperands operands_;
};

constexpr NormSpec::Kind passes[] = {NormSpec::Kind::forward, NormSpec::Kind::gradient};

TEST(CudnnNorm, ComputesWhatOurOwnKernelsDo) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto kind : passes) {
      const Scope scope;
      const auto device = open_device({});
      const NormSpec spec = small_norm(kind, dtype);
      const auto norm = device->norm(spec), own = make_own_norm(spec, device->stream());
      SCOPED_TRACE(text_of(spec));
      EXPECT_THAT(norm->name(), AllOf(HasSubstr("eng82"), EndsWith(":measured")));
      NormRun of_library(*device, spec), of_own(*device, spec);
      of_library.run(*norm);
      of_own.run(*own);
      EXPECT_LT(of_library.distance(of_own), dtype == DType::bf16 ? 1e-2 : 1e-6);
      EXPECT_EQ(of_library.mask(), of_own.mask());
    }
  }
}

TEST(CudnnNorm, IsNotTakenWhereItCannotBeOrMayDiffer) {
  const Scope scope;
  const auto device = open_device({});
  NormSpec spec = small_norm(NormSpec::Kind::forward, DType::bf16);
  spec.channels_last = false;
  EXPECT_EQ(device->norm(spec)->name(), "own:norm");
  spec = small_norm(NormSpec::Kind::gradient, DType::bf16);
  spec.gate = NormSpec::Gate::activated;
  EXPECT_EQ(device->norm(spec)->name(), "own:norm");
  const auto deterministic = open_device({.deterministic = true});
  for (const auto kind : passes)
    EXPECT_EQ(deterministic->norm(small_norm(kind, DType::bf16))->name(), "own:norm");
}

// One whose mask is also set where y is 0, and, in f32, one that rounds what it reads.
TEST(CudnnNorm, IsNotAFastEngineThatIsWrong) {
  for (const auto& spec :
       {small_norm(NormSpec::Kind::forward, DType::bf16), small_norm(NormSpec::Kind::forward, DType::f32),
        small_norm(NormSpec::Kind::gradient, DType::f32)}) {
    const Scope scope({.has_wrong_engines = true});
    const auto choices = std::make_shared<Choices>();
    EXPECT_THAT(open_device({.choices = choices})->norm(spec)->name(), HasSubstr("eng82")) << text_of(spec);
    EXPECT_THAT(choices->refused(), HasSubstr("eng67")) << text_of(spec);
  }
}

TEST(CudnnNorm, IsOurOwnWithoutMemoryForASearch) {
  std::int64_t opened = 0, all = 0;
  const NormSpec spec = small_norm(NormSpec::Kind::gradient, DType::bf16);
  {
    const Scope scope;
    const auto device = open_device({});
    opened = stand_in::allocations();
    device->norm(spec);
    all = stand_in::allocations();
  }
  ASSERT_GT(all, opened);
  for (std::int64_t n = opened; n < all; ++n) {
    SCOPED_TRACE(n);
    const Scope scope({.fail_at = n});
    const auto device = open_device({});
    EXPECT_THAT(device->norm(spec)->name(), ::testing::AnyOf("own:norm", HasSubstr("eng8")));
  }
  const Scope scope({.plans_without_memory_from = 0});
  EXPECT_EQ(open_device({})->norm(spec)->name(), "own:norm");
}

// A fork's program: what it takes for its products, and the allocations that this needed.
struct Taken {
  std::string engines, reused;
  std::int64_t allocations = 0;
};
Taken taken_with(const std::filesystem::path& file, const std::string& where,
                 const stand_in::Conditions& conditions = {}) {
  const Scope scope(conditions);
  const auto choices = std::make_shared<Choices>(file, where, file.parent_path() / "plans");
  const auto device = open_device({.choices = choices});
  for (const auto kind : {ConvolutionSpec::Kind::forward, ConvolutionSpec::Kind::weight_gradient}) {
    ConvolutionSpec spec = small_convolution();
    spec.kind = kind;
    device->convolution(spec);
  }
  device->matmul(small_product());
  device->lstm({.samples = 2, .steps = 3, .features = 4, .units = 8, .training = true});
  for (const auto kind : passes) device->norm(small_norm(kind, DType::bf16));
  return {choices->engines(), choices->reused(), stand_in::allocations()};
}

TEST(Searches, AreMadeInOneForkAndHandedToTheOthers) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "choices.json";
  const Taken first = taken_with(file, "an H200"), second = taken_with(file, "an H200");
  EXPECT_THAT(first.engines, EndsWith(" of 6"));
  EXPECT_EQ(first.reused, "none");
  EXPECT_EQ(second.engines, first.engines);
  EXPECT_EQ(second.reused, "6");
  EXPECT_LT(second.allocations, first.allocations / 2) << "no engine was tried";
  EXPECT_EQ(taken_with(file, "an H100").reused, "none") << "another device";
  std::ofstream(file) << "{\"where\":";
  EXPECT_EQ(taken_with(file, "an H200").reused, "none") << "a damaged file";
  EXPECT_EQ(taken_with(file, "an H200").reused, "6") << "which is then replaced";
}

TEST(Searches, KeepNoPlansOfAnotherDevice) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "choices.json";
  const auto plans = [&] {
    std::set<std::string> names;
    for (const auto& plan : std::filesystem::directory_iterator(folder.path() / "plans"))
      names.insert(plan.path().filename());
    return names;
  };
  taken_with(file, "an H200");
  std::ofstream(folder.path() / "plans/notes.txt") << "of a user";
  std::set<std::string> first = plans();
  EXPECT_GT(first.size(), 1U);
  taken_with(file, "an H100");
  std::set<std::string> second = plans(), both;
  std::ranges::set_intersection(first, second, std::inserter(both, both.end()));
  EXPECT_EQ(both, std::set<std::string>{"notes.txt"});
  EXPECT_EQ(second.size(), first.size());
}

// With their code, so that the other forks compile nothing.
TEST(Searches, HandOnThePlansOfTheirEngines) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "choices.json";
  const Taken first = taken_with(file, "an H200");
  const stand_in::Conditions builds_no_plan{.plans_without_memory_from = 0};
  const Taken second = taken_with(file, "an H200", builds_no_plan);
  EXPECT_EQ(second.engines, first.engines);
  EXPECT_EQ(second.reused, "6");
  for (const auto& plan : std::filesystem::directory_iterator(folder.path() / "plans")) {
    std::fstream stream(plan.path(), std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(-1, std::ios::end);
    stream.put('?');
  }
  EXPECT_ANY_THROW(taken_with(file, "an H200", builds_no_plan)) << "a damaged plan was read";
  EXPECT_EQ(taken_with(file, "an H200").engines, first.engines) << "they are built again";
  EXPECT_EQ(taken_with(file, "an H200", builds_no_plan).reused, "6") << "and kept again";
}

TEST(Searches, HandOnWhatTheyRefusedAndNothingThatWasNotMeasured) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "choices.json";
  const auto product_with = [&](const stand_in::Conditions& conditions) {
    const Scope scope(conditions);
    const auto choices = std::make_shared<Choices>(file, "an H200");
    std::pair<std::string, std::string> made;
    made.first = open_device({.choices = choices})->matmul(small_product())->name();
    made.second = choices->refused();
    return made;
  };
  std::int64_t opened = 0;
  {
    const Scope scope;
    const auto device = open_device({});
    opened = stand_in::allocations();
  }
  EXPECT_THAT(product_with({.fail_at = opened}).first, Not(HasSubstr(":measured")));
  const auto [first, refused] = product_with({.has_wrong_engines = true});
  EXPECT_THAT(first, EndsWith(":measured")) << "the choice without memory was not handed on";
  EXPECT_THAT(refused, HasSubstr("cublasLt:24"));
  EXPECT_EQ(product_with({}).first, first) << "not the wrong one, although it is right now";
  EXPECT_EQ(product_with({}).second, refused);
}

LstmSpec wide_lstm() {
  return {.samples = 9, .steps = 3, .features = 4, .units = 64, .training = true, .operands = DType::bf16};
}

// cuDNN's takes longer here: of its forms only one is fast.
TEST(Lstm, IsOurOwnInOneLaunchWhereThatIsFaster) {
  const TemporaryFolder folder;
  std::string names[2], reused[2];
  for (int fork = 0; fork < 2; ++fork) {
    const Scope scope;
    const auto choices = std::make_shared<Choices>(folder.path() / "choices.json", "an H200");
    names[fork] = open_device({.choices = choices})->lstm(wide_lstm())->name();
    reused[fork] = choices->reused();
  }
  EXPECT_EQ(names[0], "own:lstm:one_launch:measured");
  EXPECT_EQ(names[1], names[0]);
  EXPECT_NE(reused[1], "none");
  const Scope scope;
  EXPECT_TRUE(open_device({})->lstm(wide_lstm())->is_own());
  EXPECT_THAT(open_device({.deterministic = true})->lstm(wide_lstm())->name(), HasSubstr("cudnn"));
  LstmSpec other = wide_lstm();
  other.units = 40;
  EXPECT_THAT(open_device({})->lstm(other)->name(), HasSubstr("cudnn")) << "weights that fill no tiles";
}

TEST(Searches, CountNothingWhereNoneIsMade) {
  const TemporaryFolder folder;
  for (int fork = 0; fork < 2; ++fork) {
    const Scope scope;
    const auto choices = std::make_shared<Choices>(folder.path() / "choices.json", "an H200");
    const auto device = open_device({.deterministic = true, .choices = choices});
    device->convolution(small_convolution());
    device->matmul(small_product(true));
    EXPECT_EQ(choices->reused(), "none");
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "choices.json"));
}

TEST(Searches, AreMadeAgainForAnEngineThatIsNotOffered) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "choices.json";
  {
    Choices choices(file, "an H200");
    for (const auto& spec : {text_of(small_convolution()), text_of(small_product()),
                             text_of(small_norm(NormSpec::Kind::forward, DType::bf16))})
      choices.take(spec, "cudnn:eng999:workspace0:measured");
  }
  EXPECT_EQ(taken_with(file, "an H200").reused, "none");
  EXPECT_EQ(taken_with(file, "an H200").reused, "6");
}

// With a bias that cuDNN's engines with tensor cores add, or our kernel after cuDNN.
ConvolutionSpec with_bias() {
  ConvolutionSpec spec = small_convolution();
  spec.bias = spec.tf32 = true;
  return spec;
}

TEST(CudnnConvolution, IsTheFirstFormIfThereIsNoMemoryForOthers) {
  {
    const Scope scope({.plans_without_memory_from = 0});
    EXPECT_THROW(open_device({})->convolution(with_bias()), OutOfMemory);
  }
  for (std::int64_t n = 1; n < 4; ++n) {
    SCOPED_TRACE(n);
    const Scope scope({.plans_without_memory_from = n});
    const auto device = open_device({});
    EXPECT_THAT(device->convolution(with_bias())->name(), HasSubstr("+epilogue"));
  }
}

}  // namespace
}  // namespace assay::cuda
