// Holds a backend to the contract of set_state(): a state without moments resets them.
#pragma once

#include <span>
#include <string>

#include "harness/core/tensor.hpp"

namespace assay {

// `state`: after set_state(given). Throws Error if a moment, named "<parameter>.<moment>" by one of `moments`, is not zero
// and was not given. The exam sets moments itself, so it cannot see what survives between the first step, or the fork before,
// and the timed steps.
void reject_moments(std::span<const HostTensor> state, std::span<const std::string> moments,
                    std::span<const HostTensor> given = {});

}  // namespace assay
