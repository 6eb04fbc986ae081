// One row a step: learning rate and step count, float64.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/run/cell.hpp"

namespace assay {

// How many steps a fork may take: exact for epochs; for blocks sized by time what the fastest conceivable
// step allows.
std::int64_t schedule_rows(const MeasurePlan& measure, std::int64_t batch, std::int64_t training_samples);

// (rows, 2), row-major: the constant rate and 1, 2, 3, ...
std::vector<double> constant_schedule(double learning_rate, std::int64_t rows);

}  // namespace assay
