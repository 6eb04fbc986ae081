// One row a step: learning rate and step count, float64.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/rate_schedule.hpp"

namespace assay {

// How many steps a fork may take: exact for epochs; for blocks sized by time what the fastest conceivable
// step allows.
std::int64_t schedule_rows(const MeasurePlan& measure, std::int64_t batch, std::int64_t training_samples);

// (rows, 2), row-major: the rate of each step and its count 1, 2, 3, ...
std::vector<double> training_schedule(const RateSchedule& schedule, double base_rate, std::int64_t rows,
                                      std::int64_t steps_per_epoch);

}  // namespace assay
