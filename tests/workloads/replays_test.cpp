// Another backend computes losses of a run again, from its seed or from a state.
#include "harness/conductor/fork/replays.hpp"

#include <stdlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/fork/exams.hpp"
#include "harness/conductor/fork/fork_context.hpp"
#include "harness/conductor/run/run.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t replayed_seed = 3;

class ReplaysTest : public ::testing::Test {
 protected:
  ReplaysTest() {
    ::setenv("ASSAY_CACHE", (folder_.path() / "cache").c_str(), 1);
    registry_ = find_backends_in({PLANTED_BACKENDS, ASSAY_BUILT_BACKENDS}, {});
  }
  Cell cell(const std::string& workload, const std::string& rate) {
    const std::string text = R"({"workload": ")" + workload +
                             R"(", "dataset": "synthetic", "backend": "planted", "mode": "honest",
        "threads": 1, "batch": 24, "learning-rate": ")" +
                             rate + R"("})";
    RunRequest request;
    request.config = config_from_json(nlohmann::json::parse(text), "test.json");
    return cells_of(request, registries_).cells.at(0);
  }

  TemporaryFolder folder_;
  Registries registries_;
  BackendRegistry& registry_ = registries_.backends;
  RunSettings settings_;
  DatasetShelf data_{std::vector<std::filesystem::path>{}};
  Exams exams_{folder_.path() / "exams"};
  Replays replays_;
  ForkContext context_{folder_.path() / "scratch", registries_, settings_, data_, exams_};
};

TEST_F(ReplaysTest, ComputesTheBatchOfASlotFromAState) {
  const Cell still = cell("mlp", "1e-30");  // no step changes a parameter
  const std::int64_t asked[] = {8};
  const std::vector<double> losses = replays_.first_losses(still, replayed_seed, asked, context_);
  ASSERT_THAT(losses, SizeIs(8));
  const std::filesystem::path own = folder_.path() / "cell";
  write_cell_folder(own, still, FolderPurpose::run, replayed_seed, "", data_);
  for (const std::int64_t slot : {0, 5, 7}) {
    const auto from = replays_.from_state(still, replayed_seed, own / "parameters.safetensors",
                                          Replays::NextStep{.slot = slot}, {}, context_);
    ASSERT_TRUE(from.loss) << slot;
    EXPECT_DOUBLE_EQ(*from.loss, losses[static_cast<std::size_t>(slot)]) << slot;
  }
}

TEST_F(ReplaysTest, ComputesNoMoreStepsThanWereAskedFor) {
  const Cell trained = cell("mlp", "0.1");
  const std::int64_t asked[] = {4, 1'000'000'000};
  EXPECT_THAT(replays_.first_losses(trained, replayed_seed, asked, context_), SizeIs(4));
  const std::int64_t beyond[] = {1'000'000'000};
  EXPECT_THAT(replays_.first_losses(trained, replayed_seed, beyond, context_), IsEmpty());
}

TEST_F(ReplaysTest, StartsNothingForANetworkThatIsBeyondReach) {
  const Cell large = cell("resnet50", "0.1");
  Registries oracle_only;
  oracle_only.backends = find_backends_in({PLANTED_BACKENDS, ASSAY_BUILT_BACKENDS}, {});
  std::erase_if(oracle_only.backends.backends, [](const BackendDescription& backend) {
    return backend.name != "planted" && !backend.oracle;
  });
  const ForkContext context{folder_.path() / "scratch", oracle_only, settings_, data_, exams_};
  const std::int64_t asked[] = {2};
  EXPECT_THAT(replays_.first_losses(large, replayed_seed, asked, context), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "scratch"));
}

}  // namespace
}  // namespace assay
