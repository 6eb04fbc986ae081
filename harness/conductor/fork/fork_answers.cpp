#include "harness/conductor/fork/fork_answers.hpp"

#include <algorithm>
#include <utility>

#include "harness/machine/environment.hpp"

namespace assay {

void take_ending(Fork& fork, ConversationResult& result) {
  end_like(fork, result);
  if (!result.ok()) fork.log_tail = result.log_tail;
  fork.gpu = std::move(result.gpu);
}

namespace {

// A worker reports what it finds in its environment, in which there may be secrets of its user.
void add_settings(Fork& fork, const protocol::Settings& settings) {
  for (const auto& [name, value] : settings)
    if (may_be_listed(name)) fork.settings[name] = value;
}

}  // namespace

void take_over(Fork& fork, ConversationResult& result) {
  take_ending(fork, result);
  fork.host_peak_rss = result.peak_rss;
  fork.host_start_rss = result.start_rss;
  fork.samples = std::move(result.samples);
  if (result.hello) add_settings(fork, result.hello->settings);
  if (result.compiled) {
    fork.compile_seconds = result.compiled->seconds;
    fork.memory = result.compiled->memory;
    add_settings(fork, result.compiled->settings);
  }
  if (!result.ran) return;
  fork.parameters_digest = result.ran->state_digest;
  for (const auto& [name, value] : result.ran->memory) fork.memory[name] = value;
  add_settings(fork, result.ran->settings);
  fork.operators = std::move(result.ran->operators);
}

void add_spent(TimeSpent& spent, const ConversationResult& result) {
  spent.start += result.start_seconds;
  spent.quit += result.quit_seconds;
  for (const auto& [verb, seconds] : result.command_seconds) {
    if (verb == protocol::Verb::compile || verb == protocol::Verb::restart) spent.compile += seconds;
    if (verb == protocol::Verb::run) spent.run += seconds;
    if (verb == protocol::Verb::verify) spent.check += seconds;
    if (verb == protocol::Verb::exchange) spent.exchange += seconds;
    if (verb == protocol::Verb::time_device) spent.device += seconds;
  }
}

void take_last_times(Fork& fork, std::vector<ConversationResult>& results) {
  fork.device_timed = std::move(results.front().device_timed);
  for (std::size_t rank = 0; rank < std::min(fork.ranks.size(), results.size()); ++rank)
    if (results[rank].exchanged) fork.ranks[rank].exchange = std::move(results[rank].exchanged);
}

}  // namespace assay
