// Chooses the cores of a worker and of the conductor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// The logical CPUs that this process could use at its start; one CPU of each physical core comes first.
const std::vector<int>& usable_cores();

// The threads that can compute at the same time on so many processors under a CPU quota, in processors; at least 1.
int threads_within(std::size_t processors, std::optional<double> quota);
// The same for this process: usable_cores() under the quota of its control group.
int usable_threads();
// The CPU quota of the control group of this process, in processors; nothing without one.
std::optional<double> cpu_quota();

// What to expect of a run with so many threads on so many processors under a CPU quota; empty if they have enough.
std::string overload_text(std::int64_t threads, std::size_t processors, std::optional<double> quota);

// The cores of a worker with a budget of `threads`: the first `threads` of them. Empty (no affinity) if the
// budget is larger than the machine. lane: number of a worker that runs next to others, from 0; each lane
// gets different cores as long as there are enough.
std::vector<int> worker_cores(int threads, int lane = 0);
// The same on a machine with these usable_cores().
std::vector<int> worker_cores_of(const std::vector<int>& usable, int threads, int lane);
// The first of these processors on each physical core, as far as the system shows the cores.
std::vector<int> one_per_core(const std::vector<int>& processors);
// Moves this thread off those cores if others are left; otherwise does nothing.
void leave_cores_to_worker(const std::vector<int>& taken);
// Undoes leave_cores_to_worker(), so that later measurements see the whole machine.
void take_cores_back();
// "0,1,4"
std::string cores_text(const std::vector<int>& cores);

}  // namespace assay
