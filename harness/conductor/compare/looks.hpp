// A sequential comparison of two sides, round by round: a limited number of planned looks, each with its
// share of the error, and `slower` or `faster` only if fresh rounds confirm it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/compare/time_decision.hpp"
#include "harness/conductor/compare/verdict.hpp"

namespace assay {

// The looks of a family of cells, fixed before the first round.
struct LookPlan {
  std::vector<int> rounds;  // ascending: the rounds after which to look
  double confidence = 0;    // of the interval at each look
};

// Each of `looks` looks at each of `cells` cells gets the same share of 1 - confidence, so the probability
// that any interval misses is at most 1 - confidence, even if the looks depend on each other. The first look
// is at the first round with an exact interval of that confidence, but not before round 8. Each further look
// is at 1.5 times the round of the one before, and at least `confirming_rounds` later. With `last` the looks
// are in equal proportions up to that round.
LookPlan plan_looks(double confidence, int cells, int looks = 5, int last = 0);

inline constexpr int confirming_rounds = 6;  // with which a 95 % interval exists
inline constexpr double confirming_confidence = 0.95;

// The looks of one pair of cells. Pure: the caller adds rounds until decided().
class Looks {
 public:
  // `settings.confidence` is that of a look.
  Looks(LookPlan plan, const DecisionSettings& settings);

  // Adds a round in which both sides were measured. Precondition: not decided().
  void add(double base, double current);

  // `same` is decided by one look; `slower` and `faster` when the rounds from that look to the next one also show it, at
  // 95 %. If they do not, the looks continue. Also true if the last look was inconclusive.
  bool decided() const { return decided_; }
  int rounds() const { return static_cast<int>(base_.size()); }
  int taken() const { return looks_; }
  // The number of rounds until the next look or the end of a confirmation.
  int rounds_to_next_look() const;

  // The current verdict; if a planned look is left, looks once more. A change that no fresh rounds confirmed is
  // inconclusive.
  CellVerdict verdict() const;

 private:
  CellVerdict decide(std::size_t from, double confidence) const;
  CellVerdict unconfirmed(CellVerdict cell, const char* why) const;
  void look();
  int confirmation_end() const;

  LookPlan plan_;
  DecisionSettings settings_;
  std::vector<double> base_, current_;
  int looks_ = 0;
  std::optional<int> candidate_;  // the round of the look with the verdict slower or faster
  std::optional<CellVerdict> last_;
  bool decided_ = false;
};

}  // namespace assay
