// The words of the report's enumerations, once.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "harness/report/report.hpp"

namespace assay {

inline constexpr std::array<std::pair<Status, std::string_view>, 9> status_names{{
    {Status::ok, "ok"},
    {Status::unsupported, "unsupported"},
    {Status::unavailable, "unavailable"},
    {Status::wrong_result, "wrong_result"},
    {Status::out_of_memory, "out_of_memory"},
    {Status::crashed, "crashed"},
    {Status::timed_out, "timed_out"},
    {Status::failed, "failed"},
    {Status::interrupted, "interrupted"},
}};

inline constexpr std::array<std::pair<Hint, std::string_view>, 9> hint_names{{
    {Hint::duration, "duration"},
    {Hint::rate, "rate"},
    {Hint::ratio, "ratio"},
    {Hint::percentage, "percentage"},
    {Hint::bytes, "bytes"},
    {Hint::count, "count"},
    {Hint::energy, "energy"},
    {Hint::power, "power"},
    {Hint::number, "number"},
}};

}  // namespace assay
