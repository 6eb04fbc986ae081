#include "harness/report/exchange_cost.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/statistics.hpp"

namespace assay {
namespace {

using protocol::Exchanged;

constexpr const char* one_rank = "the cell has one rank";

// Why the ranks' exchanges cannot be joined; empty if they can.
std::string unknown_exchange(const Fork& fork) {
  if (fork.ranks.empty()) return one_rank;
  for (const RankRecord& rank : fork.ranks) {
    if (!rank.exchange)
      return "the exchange was not measured: the backend does not do that, or the run had --quick";
    if (!rank.exchange->reason.empty()) return rank.exchange->reason;
  }
  const std::size_t rounds = fork.ranks.front().exchange->step_seconds.size();
  for (const RankRecord& rank : fork.ranks)
    for (const auto* times :
         {&rank.exchange->step_seconds, &rank.exchange->local_seconds, &rank.exchange->bare_seconds})
      if (times->size() != rounds || rounds == 0) return "the ranks did not measure the same rounds";
  return {};
}

using Times = std::vector<double> Exchanged::*;

// The slowest rank's time in each round. Precondition: no unknown_exchange().
std::vector<double> slowest(const Fork& fork, Times times) {
  std::vector<double> all = (*fork.ranks.front().exchange).*times;
  for (const RankRecord& rank : fork.ranks)
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], ((*rank.exchange).*times)[i]);
  return all;
}

double time_of(const Fork& fork, Times times) { return median(slowest(fork, times)); }

double exposed(const Fork& fork) {
  std::vector<double> more = slowest(fork, &Exchanged::step_seconds);
  const std::vector<double> local = slowest(fork, &Exchanged::local_seconds);
  for (std::size_t i = 0; i < more.size(); ++i) more[i] -= local[i];
  return median(more);
}

template <typename F>
ForkValue if_known(const Fork& fork, F value) {
  if (std::string why = unknown_exchange(fork); !why.empty()) return {{}, std::move(why)};
  return {value(), ""};
}

}  // namespace

ForkValue local_step_time(const Fork& fork) {
  return if_known(fork, [&] { return time_of(fork, &Exchanged::local_seconds); });
}

ForkValue bare_exchange_time(const Fork& fork) {
  return if_known(fork, [&] { return time_of(fork, &Exchanged::bare_seconds); });
}

ForkValue exposed_exchange_time(const Fork& fork) {
  return if_known(fork, [&] { return exposed(fork); });
}

ForkValue exchange_share(const Fork& fork) {
  return if_known(fork, [&] { return exposed(fork) / time_of(fork, &Exchanged::step_seconds); });
}

ForkValue hidden_exchange_share(const Fork& fork) {
  return if_known(fork, [&] { return 1 - exposed(fork) / time_of(fork, &Exchanged::bare_seconds); });
}

ForkValue gradient_bytes(const Fork& fork) {
  return if_known(fork, [&] { return static_cast<double>(fork.ranks.front().exchange->gradient_bytes); });
}

ForkValue wire_bytes(const Fork& fork) {
  if (fork.ranks.empty()) return {{}, one_rank};
  if (!fork.loopback_bytes) return {{}, "the report has no such value"};
  double steps = 0;
  for (const Block& block : fork.blocks) steps += static_cast<double>(block.steps);
  if (steps <= 0) return {{}, "no block was timed"};
  return {static_cast<double>(*fork.loopback_bytes) / steps / static_cast<double>(fork.ranks.size()), ""};
}

}  // namespace assay
