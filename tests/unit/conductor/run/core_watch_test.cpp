#include "harness/conductor/run/core_watch.hpp"

#include <deque>

#include <gmock/gmock.h>

namespace assay {
namespace {

using ::testing::DoubleNear;

const std::vector<int> processors{0, 1};

// A machine whose slowdowns are a list; the last one remains.
class CoreWatchTest : public ::testing::Test {
 protected:
  std::optional<double> next() {
    const std::optional<double> slowdown = slowdowns_.front();
    if (slowdowns_.size() > 1) slowdowns_.pop_front();
    return slowdown;
  }
  CoreWatch watch() {
    return CoreWatch({.slowdown = [this](const std::vector<int>&) { return next(); },
                      .pause =
                          [this](CoreWatch::Seconds time) {
                            waited_ += time.count();
                            return !stops_;
                          }});
  }

  std::deque<std::optional<double>> slowdowns_;
  double waited_ = 0;
  bool stops_ = false;
};

TEST_F(CoreWatchTest, DoesNotWaitForProcessorsThatAreApart) {
  slowdowns_ = {1.0, 1.1};
  CoreWatch watch = this->watch();
  watch.before_run(processors, true);
  EXPECT_EQ(watch.after_run(processors), (CoreSharing{.before = 1.0, .after = 1.1, .lowest = 1.0}));
  EXPECT_EQ(waited_, 0);
}

TEST_F(CoreWatchTest, WaitsUntilProcessorsAreApart) {
  slowdowns_ = {2.0, 2.0, 1.0, 1.0};
  CoreWatch watch = this->watch();
  watch.before_run(processors, true);
  const auto sharing = watch.after_run(processors);
  ASSERT_TRUE(sharing);
  EXPECT_EQ(sharing->before, 1.0);
  EXPECT_FALSE(had_shared_core(*sharing));
  EXPECT_GT(waited_, 0);
}

TEST_F(CoreWatchTest, FlagsAForkThatEndsOrBeginsOnASharedCore) {
  slowdowns_ = {1.0, 2.0};
  CoreWatch watch = this->watch();
  watch.before_run(processors, true);
  EXPECT_TRUE(had_shared_core(*watch.after_run(processors)));
  watch.before_run(processors, true);  // never apart again
  EXPECT_THAT(waited_, DoubleNear(3, 0.1));
  EXPECT_TRUE(had_shared_core(*watch.after_run(processors)));
}

TEST_F(CoreWatchTest, AcceptsProcessorsThatAlwaysShareACore) {
  slowdowns_ = {2.0};
  CoreWatch watch = this->watch();
  watch.before_run(processors, true);
  EXPECT_THAT(waited_, DoubleNear(10, 0.1));
  EXPECT_FALSE(had_shared_core(*watch.after_run(processors)));
  watch.before_run(processors, true);
  EXPECT_THAT(waited_, DoubleNear(10, 0.1)) << "only the first time";
}

TEST_F(CoreWatchTest, DoesNotWaitIfTheCallerMayNotOrIsStopped) {
  slowdowns_ = {2.0};
  CoreWatch watch = this->watch();
  watch.before_run(processors, false);
  EXPECT_EQ(waited_, 0);
  stops_ = true;
  CoreWatch stopped = this->watch();
  stopped.before_run(processors, true);
  EXPECT_LT(waited_, 1);
}

TEST_F(CoreWatchTest, ReportsNothingWhereNothingIsMeasured) {
  slowdowns_ = {std::nullopt};
  CoreWatch watch = this->watch();
  watch.before_run({0}, true);
  EXPECT_FALSE(watch.after_run({0}));
}

}  // namespace
}  // namespace assay
