// A sequential comparison of two sides, round by round: at most so many planned looks, each with its share of
// the error, and `slower` only when fresh rounds say so again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/compare/time_judge.hpp"
#include "harness/conductor/compare/verdict.hpp"

namespace assay {

// The looks of a family of cells, fixed before the first round.
struct LookPlan {
  std::vector<int> rounds;  // ascending: after so many is looked
  double confidence = 0;    // of the interval at each look
};

// Each of `looks` looks at each of `cells` cells gets the same share of 1 - confidence, so the chance that
// any interval misses is at most that, whatever the looks have to do with each other. The first look is where
// an exact interval of that confidence exists, and at 8 rounds at least; each further one is half as far
// again, and at least `confirming_rounds` on. With a `last` they lie in equal proportions up to that many
// rounds.
LookPlan plan_looks(double confidence, int cells, int looks = 5, int last = 0);

inline constexpr int confirming_rounds = 6;  // with which a 95 % interval exists
inline constexpr double confirming_confidence = 0.95;

// One pair of cells. Pure: it is told the rounds, and says when it has seen enough.
class Trial {
 public:
  // `settings.confidence` is that of a look; `between_runs` plays no part: both sides are of one run.
  Trial(LookPlan plan, const JudgeSettings& settings);

  // A round in which both sides were measured. Not after decided().
  void add(double base, double current);

  // `faster` and `same` stand once a look says so; `slower` once the rounds from that look to the next say so
  // alone, at 95 %. Where they do not, the trial goes on. Also where the last look left it open.
  bool decided() const { return decided_; }
  int rounds() const { return static_cast<int>(base_.size()); }
  int looks() const { return looks_; }
  // How many rounds until the trial knows more.
  int rounds_to_next_look() const;

  // The verdict, or what can be said when no further round comes: one last look where one is left. A `slower`
  // that no fresh rounds confirmed is inconclusive.
  CellVerdict verdict() const;

 private:
  CellVerdict judge(std::size_t from, double confidence) const;
  CellVerdict unconfirmed(CellVerdict cell, const char* why) const;
  void look();
  int confirmation_end() const;

  LookPlan plan_;
  JudgeSettings settings_;
  std::vector<double> base_, current_;
  int looks_ = 0;
  std::optional<int> candidate_;  // rounds at the look that said slower
  std::optional<CellVerdict> last_;
  bool decided_ = false;
};

}  // namespace assay
