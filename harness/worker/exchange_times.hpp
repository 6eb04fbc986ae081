// The command `exchange`: what the exchange of gradients costs this rank.
#pragma once

#include "harness/protocol/message.hpp"
#include "harness/worker/backend.hpp"

namespace assay {

// Times the step, the same step without the exchange, and the exchange with nothing else going on, in turn. The learning
// rate is 0, so parameters stay as they are; moments and running statistics do not. All ranks call it at the same time. A
// batch must be staged in slot 0. Throws the exceptions of the executable.
protocol::Exchanged exchange_times(Executable& executable);

}  // namespace assay
