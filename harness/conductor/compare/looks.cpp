#include "harness/conductor/compare/looks.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr int min_first_look = 8;

int next_look(int rounds) { return rounds + std::max(confirming_rounds, (rounds + 1) / 2); }

bool is_change(Verdict verdict) { return verdict == Verdict::slower || verdict == Verdict::faster; }

}  // namespace

LookPlan plan_looks(double confidence, int cells, int looks, int last) {
  looks = std::max(1, looks);
  LookPlan plan;
  plan.confidence = 1 - (1 - confidence) / (std::max(1, cells) * looks);
  plan.rounds.push_back(std::max(min_first_look, min_rounds_for(plan.confidence)));
  if (last == 0) {
    while (std::ssize(plan.rounds) < looks) plan.rounds.push_back(next_look(plan.rounds.back()));
    return plan;
  }
  const int first = plan.rounds.front();
  for (int look = 1; look < looks && plan.rounds.back() < last; ++look) {
    const double wanted = first * std::pow(static_cast<double>(last) / first, look / (looks - 1.0));
    const int next = std::max(static_cast<int>(std::lround(wanted)), plan.rounds.back() + confirming_rounds);
    plan.rounds.push_back(look + 1 == looks ? last : std::min(next, last));
  }
  return plan;
}

Looks::Looks(LookPlan plan, const DecisionSettings& settings) : plan_(std::move(plan)), settings_(settings) {}

void Looks::add(double base, double current) {
  assert(!decided_);
  base_.push_back(base);
  current_.push_back(current);
  if (rounds_to_next_look() == 0) look();
}

// A confirmation ends at the next look; after the last look, where the next one would be.
int Looks::confirmation_end() const { return next_look(*candidate_); }

int Looks::rounds_to_next_look() const {
  const auto next = static_cast<std::size_t>(looks_);
  const int due = next < plan_.rounds.size() ? plan_.rounds[next]
                  : candidate_               ? confirmation_end()
                                             : rounds();
  return due - rounds();
}

CellVerdict Looks::decide(std::size_t from, double confidence) const {
  DecisionSettings settings = settings_;
  settings.confidence = confidence;
  return decide_rounds(std::span(base_).subspan(from), std::span(current_).subspan(from), settings);
}

void Looks::look() {
  if (candidate_) {
    const CellVerdict fresh = decide(static_cast<std::size_t>(*candidate_), confirming_confidence);
    if (fresh.verdict == last_->verdict) {
      // The numbers are those of the look that found it; the reason has those of the fresh rounds.
      last_->reason = fmt::format(
          "{} fresh rounds confirm it: {}", fresh.base_forks,
          fresh.ratio ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", *fresh.ratio, *fresh.lower, *fresh.upper)
                      : fresh.reason);
      decided_ = true;
      return;
    }
    candidate_.reset();
  }
  const auto planned = static_cast<int>(plan_.rounds.size());
  if (looks_ < planned) {
    ++looks_;
    last_ = decide(0, plan_.confidence);
    if (is_change(last_->verdict)) {
      candidate_ = rounds();
      return;
    }
    if (last_->verdict != Verdict::inconclusive) decided_ = true;
  } else {
    last_ = unconfirmed(*last_, "the fresh rounds did not confirm it");
  }
  if (looks_ == planned) decided_ = true;
}

CellVerdict Looks::unconfirmed(CellVerdict cell, const char* why) const {
  const std::string size = cell.ratio ? fmt::format(" by {:.1f} %", 100 * std::abs(*cell.ratio - 1)) : "";
  cell.reason = fmt::format("{}{} after {}, but {}", to_string(cell.verdict), size,
                            plural(cell.base_forks, "round"), why);
  cell.verdict = Verdict::inconclusive;
  return cell;
}

CellVerdict Looks::verdict() const {
  if (decided_) return *last_;
  if (candidate_)
    return unconfirmed(*last_, "the time ended before fresh rounds could confirm it; increase --max-time");
  if (rounds() == 0) {
    CellVerdict nothing;
    nothing.reason = "no round was measured";
    return nothing;
  }
  CellVerdict cell = decide(0, plan_.confidence);
  if (is_change(cell.verdict))
    return unconfirmed(cell, "the time ended before fresh rounds could confirm it; increase --max-time");
  return cell;
}

}  // namespace assay
