#include "harness/report/time_spent.hpp"

#include <algorithm>

#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

double blocks_of(const Fork& fork, BlockKind kind) {
  double seconds = 0;
  for (const Block& block : fork.blocks)
    if (block.kind == kind) seconds += std::max(0.0, block_seconds(block));
  return seconds;
}

class Sum {
 public:
  void add(const TimeSpent& spent) {
    start_ += spent.start + spent.quit;
    compile_ += spent.compile;
    checks_ += spent.check + spent.judge;
    exchanges_ += spent.exchange;
    device_ += spent.device;
    folders_ += spent.folder;
  }

  void add(const Fork& fork) {
    add(*fork.spent);
    const double warm_up = blocks_of(fork, BlockKind::warm_up), timed = blocks_of(fork, BlockKind::timed);
    double evaluated = 0;
    for (const Evaluation& evaluation : fork.evaluations) evaluated += std::max(0.0, evaluation.seconds);
    warm_up_ += warm_up;
    timed_ += timed;
    evaluations_ += evaluated;
    between_ += std::max(0.0, fork.spent->run - warm_up - timed - evaluated);
  }

  void add_check(const TimeSpent& spent) { checks_before_ += total(spent); }

  std::vector<TimeShare> shares() const {
    std::vector<TimeShare> shares = {{"timed blocks", timed_},
                                     {"warm-up", warm_up_},
                                     {"evaluations", evaluations_},
                                     {"compiling", compile_},
                                     {"starting and ending workers", start_},
                                     {"checks before timing", checks_before_},
                                     {"checks after timing", checks_},
                                     {"exchanges of gradients", exchanges_},
                                     {"steps on the device alone", device_},
                                     {"staging data", between_},
                                     {"writing cell folders", folders_}};
    std::erase_if(shares, [](const TimeShare& share) { return !(share.seconds > 0); });
    std::stable_sort(shares.begin(), shares.end(),
                     [](const TimeShare& a, const TimeShare& b) { return a.seconds > b.seconds; });
    return shares;
  }

 private:
  double timed_ = 0, warm_up_ = 0, evaluations_ = 0, compile_ = 0, start_ = 0;
  double checks_before_ = 0, checks_ = 0, exchanges_ = 0, device_ = 0, between_ = 0, folders_ = 0;
};

}  // namespace

double total(const TimeSpent& spent) {
  return spent.folder + spent.start + spent.compile + spent.run + spent.check + spent.exchange +
         spent.device + spent.judge + spent.quit;
}

void scale(TimeSpent& spent, double factor) {
  for (double* part : {&spent.folder, &spent.start, &spent.compile, &spent.run, &spent.check, &spent.exchange,
                       &spent.device, &spent.judge, &spent.quit})
    *part *= factor;
}

std::vector<TimeShare> time_spent(const Report& report) {
  Sum sum;
  bool known = false;
  for (const CellReport& cell : report.cells) {
    if (cell.check_spent) sum.add_check(*cell.check_spent);
    for (const Fork& fork : cell.forks) {
      if (!fork.spent) continue;
      sum.add(fork);
      known = true;
    }
  }
  return known ? sum.shares() : std::vector<TimeShare>{};
}

}  // namespace assay
