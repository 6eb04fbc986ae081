// Cuts a run into shards: parts that several machines measure, each into a report of its own. `assay merge` joins
// the reports.
#pragma once

#include <string_view>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/report/run_record.hpp"

namespace assay {

// Reads "2/4" (from 1), or "slurm": the task of a job array, from SLURM_ARRAY_TASK_ID, _COUNT, _MIN, _MAX and
// _STEP. Throws ConfigError.
Shard parse_shard(std::string_view text);

// The number of the shard of each cell, from 1. Cells that are compared stay together, because only cells of one
// machine can be paired. Each comparison group, in the order of the plan, goes to the shard with the fewest cells
// so far. Depends only on the cells and the number of shards. Throws ConfigError if there are fewer groups than
// shards.
std::vector<int> shards_of(const std::vector<Cell>& cells, int count);

// Makes the cells of other shards not runnable, with the reason code `other_shard`.
void keep_shard(std::vector<Cell>& cells, const Shard& shard);

}  // namespace assay
