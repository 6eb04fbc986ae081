#include "harness/conductor/fork/core_watch.hpp"

#include <deque>

#include <gmock/gmock.h>

namespace assay {
namespace {

using ::testing::DoubleNear;

const std::vector<int> processors{0, 1};
constexpr CoreReading usual{1.0, 50}, far_apart{1.0, 250}, on_one_core{2.0, 20};

// A machine whose readings are a list; the last one remains.
class CoreWatchTest : public ::testing::Test {
 protected:
  CoreWatch watch() {
    return CoreWatch({.read =
                          [this](const std::vector<int>&) {
                            const std::optional<CoreReading> reading = readings_.front();
                            if (readings_.size() > 1) readings_.pop_front();
                            return reading;
                          },
                      .pause =
                          [this](CoreWatch::Seconds time) {
                            waited_ += time.count();
                            return !stops_;
                          }});
  }

  std::deque<std::optional<CoreReading>> readings_;
  double waited_ = 0;
  bool stops_ = false;
};

TEST_F(CoreWatchTest, DoesNotWaitForTheUsualPlacement) {
  readings_ = {usual, far_apart};
  CoreWatch watch = this->watch();
  watch.before_run(processors, true);
  EXPECT_EQ(watch.after_run(processors), (CorePlacement{.before = usual, .after = far_apart}));
  EXPECT_EQ(waited_, 0);
}

TEST_F(CoreWatchTest, WaitsUntilTheProcessorsArePlacedAsUsual) {
  readings_ = {usual, usual, far_apart, on_one_core, usual};
  CoreWatch watch = this->watch();
  watch.before_run(processors, true);
  watch.after_run(processors);
  watch.before_run(processors, true);
  EXPECT_EQ(watch.after_run(processors)->before, usual);
  EXPECT_GT(waited_, 0);
}

TEST_F(CoreWatchTest, LosesPatienceWithAPlacementThatStays) {
  readings_ = {usual, on_one_core};
  CoreWatch watch = this->watch();
  watch.before_run(processors, true);
  watch.after_run(processors);
  std::vector<double> waits;
  for (int i = 0; i < 3; ++i) {
    waited_ = 0;
    watch.before_run(processors, true);
    waits.push_back(waited_);
    watch.after_run(processors);
  }
  EXPECT_THAT(waits, ::testing::ElementsAre(DoubleNear(10, 0.1), DoubleNear(5, 0.1), DoubleNear(2.5, 0.1)));
}

TEST_F(CoreWatchTest, AcceptsProcessorsThatAlwaysShareACore) {
  readings_ = {on_one_core};
  CoreWatch watch = this->watch();
  watch.before_run(processors, true);
  EXPECT_EQ(waited_, 0);
}

TEST_F(CoreWatchTest, DoesNotWaitIfTheCallerMayNotOrIsStopped) {
  readings_ = {usual, far_apart};
  CoreWatch watch = this->watch();
  watch.before_run(processors, false);
  watch.before_run(processors, false);
  EXPECT_EQ(waited_, 0);
  stops_ = true;
  watch.before_run(processors, true);
  EXPECT_LT(waited_, 1);
}

TEST_F(CoreWatchTest, ReportsNothingWhereNothingIsRead) {
  readings_ = {std::nullopt};
  CoreWatch watch = this->watch();
  watch.before_run({0}, true);
  EXPECT_FALSE(watch.after_run({0}));
}

}  // namespace
}  // namespace assay
