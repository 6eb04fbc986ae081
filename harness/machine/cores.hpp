// Which cores a worker gets and which are left to the conductor.
#pragma once

#include <string>
#include <vector>

namespace assay {

// The logical CPUs that this process was allowed at its start, one of each physical core first.
const std::vector<int>& usable_cores();

// For a worker with a budget of `threads`: the first so many of them; empty (no affinity) when the budget is
// larger than the machine. lane: of workers side by side, from 0: each gets others as long as there are any.
std::vector<int> worker_cores(int threads, int lane = 0);
// Moves this thread off those cores where others are left; does nothing where none are.
void leave_cores_to_worker(const std::vector<int>& taken);
// Undoes it: what is asked of the machine afterwards is asked of the whole.
void take_cores_back();
// "0,1,4"
std::string cores_text(const std::vector<int>& cores);

}  // namespace assay
