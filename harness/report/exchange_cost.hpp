// What the exchange of gradients costs the ranks of a fork.
//
// After its timed steps, each rank measures three times in each of several rounds: a step, the same step without the
// exchange (a local step: each rank updates with its own gradients), and an exchange of as many bytes with nothing else
// going on (a bare exchange). In a round, the time of the slowest rank counts. Each value below is made of medians over
// the rounds.
#pragma once

#include "harness/report/gpu_metrics.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Seconds.
ForkValue local_step_time(const Fork& fork);
ForkValue bare_exchange_time(const Fork& fork);
// Seconds by which a step is longer than a local step. Noise can make it negative.
ForkValue exposed_exchange_time(const Fork& fork);
// exposed_exchange_time / the time of the same steps.
ForkValue exchange_share(const Fork& fork);
// 1 - exposed_exchange_time / bare_exchange_time. Negative if the exchange costs a step more than it takes by itself: its
// copies, or threads that take processors from the computation.
ForkValue hidden_exchange_share(const Fork& fork);

// Bytes of the gradients that each rank gives to the exchange in a step.
ForkValue gradient_bytes(const Fork& fork);
// The bytes on the loopback interface during the run, over the steps of all blocks and the ranks.
ForkValue wire_bytes(const Fork& fork);

}  // namespace assay
