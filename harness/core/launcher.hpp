// What starts the ranks of a cell.
#pragma once

#include <array>

#include "harness/core/words.hpp"

namespace assay {

// The conductor itself, or a program that starts one process for each rank.
enum class Launcher { fork, mpirun, srun, torchrun };
template <>
inline constexpr auto words<Launcher> =
    std::array{Word{Launcher::fork, "fork"}, Word{Launcher::mpirun, "mpirun"}, Word{Launcher::srun, "srun"},
               Word{Launcher::torchrun, "torchrun"}};

}  // namespace assay
