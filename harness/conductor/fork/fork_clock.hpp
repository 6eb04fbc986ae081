// What the workers of a timed fork measured.
#pragma once

#include <vector>

#include "harness/conductor/fork/members.hpp"

namespace assay {

// Reads it, judges it by what the conductor saw (`result`, and those of several ranks), and adds flags and warnings. The
// status says why it is rejected.
void take_clock(Fork& fork, const Cell& cell, const std::vector<Member>& members,
                const ConversationResult& result, const std::vector<ConversationResult>& results);

}  // namespace assay
