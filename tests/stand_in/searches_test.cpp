// What a search for engines leaves: names, and the count of memory.
#include "tests/stand_in/program_case.hpp"
#include "tests/stand_in/session.hpp"

namespace assay::cuda {
namespace {

using stand_in::Session;

// The first evaluation makes kernels of its own, whose trial buffers are not counted; what the steps held is.
TEST(FrameworkPeak, StaysAfterTheSearchOfALateEvaluation) {
  const Session session;
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

}  // namespace
}  // namespace assay::cuda
