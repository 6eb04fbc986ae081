// Chooses the cores of a worker and of the conductor.
#pragma once

#include <string>
#include <vector>

namespace assay {

// The logical CPUs that this process could use at its start; one CPU of each physical core comes first.
const std::vector<int>& usable_cores();

// The cores of a worker with a budget of `threads`: the first `threads` of them. Empty (no affinity) if the
// budget is larger than the machine. lane: number of a worker that runs next to others, from 0; each lane
// gets different cores as long as there are enough.
std::vector<int> worker_cores(int threads, int lane = 0);
// The first of these processors on each physical core, as far as the system shows the cores.
std::vector<int> one_per_core(const std::vector<int>& processors);
// Moves this thread off those cores if others are left; otherwise does nothing.
void leave_cores_to_worker(const std::vector<int>& taken);
// Undoes leave_cores_to_worker(), so that later measurements see the whole machine.
void take_cores_back();
// "0,1,4"
std::string cores_text(const std::vector<int>& cores);

}  // namespace assay
