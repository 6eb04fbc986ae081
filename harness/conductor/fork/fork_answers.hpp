// What the worker answered, taken into the fork.
#pragma once

#include <vector>

#include "harness/conductor/process/conversation.hpp"
#include "harness/report/report.hpp"

namespace assay {

// The end of a conversation, and the data about the worker until then.
void take_ending(Fork& fork, ConversationResult& result);
// The answers to all commands, with take_ending().
void take_over(Fork& fork, ConversationResult& result);
// What was measured after the exam: the exchange of the ranks, and the device of a single op.
void take_last_times(Fork& fork, std::vector<ConversationResult>& results);
// Adds the time of the worker's answers.
void add_spent(TimeSpent& spent, const ConversationResult& result);

}  // namespace assay
