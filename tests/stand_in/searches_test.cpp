// What a search for engines leaves: names, and the count of memory.
#include <filesystem>
#include <fstream>

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

// A fork's program: what it takes for its products, and the allocations that this needed.
struct Taken {
  std::string engines, reused;
  std::int64_t allocations = 0;
};
Taken taken_with(const std::filesystem::path& file, const std::string& where) {
  const Scope scope;
  const auto choices = std::make_shared<Choices>(file, where);
  const auto device = open_device({.choices = choices});
  for (const auto kind : {ConvolutionSpec::Kind::forward, ConvolutionSpec::Kind::weight_gradient}) {
    ConvolutionSpec spec = small_convolution();
    spec.kind = kind;
    device->convolution(spec);
  }
  device->matmul(small_product());
  device->lstm({.samples = 2, .steps = 3, .features = 4, .units = 8, .training = true});
  return {choices->engines(), choices->reused(), stand_in::allocations()};
}

TEST(Searches, AreMadeInOneForkAndHandedToTheOthers) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "choices.json";
  const Taken first = taken_with(file, "an H200"), second = taken_with(file, "an H200");
  EXPECT_THAT(first.engines, EndsWith(" of 4"));
  EXPECT_EQ(first.reused, "none");
  EXPECT_EQ(second.engines, first.engines);
  EXPECT_EQ(second.reused, "4");
  EXPECT_LT(second.allocations, first.allocations / 2) << "no engine was tried";
  EXPECT_EQ(taken_with(file, "an H100").reused, "none") << "another device";
  std::ofstream(file) << "{\"where\":";
  EXPECT_EQ(taken_with(file, "an H200").reused, "none") << "a damaged file";
  EXPECT_EQ(taken_with(file, "an H200").reused, "4") << "which is then replaced";
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
    for (const auto& spec : {text_of(small_convolution()), text_of(small_product())})
      choices.take(spec, "cudnn:eng999:workspace0:measured");
  }
  EXPECT_EQ(taken_with(file, "an H200").reused, "none");
  EXPECT_EQ(taken_with(file, "an H200").reused, "4");
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
