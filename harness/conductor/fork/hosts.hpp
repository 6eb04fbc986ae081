// The machines of a fork whose ranks a launcher has put on several.
#pragma once

#include <vector>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/process/launch.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Asks each machine what it is. If one differs from the first in a way that times depend on, or has other files of the
// backend, the fork gets the flag `unlike_hosts`, and a warning that names it. Throws Error.
std::vector<HostRecord> look_at_hosts(Launch& launch, const BackendDescription& backend, Fork& fork);

// The same for the versions of the libraries that the ranks loaded.
void note_unlike_libraries(Fork& fork, const std::vector<ConversationResult>& ranks);

}  // namespace assay
