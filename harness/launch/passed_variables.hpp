// Which environment variables of the caller reach the processes of a measurement. All others are left out: a variable that
// pins threads, switches a compiler off or replaces a library would change what is measured, and nobody would see it.
#pragma once

#include <string_view>

namespace assay {

// The key of a launch of ranks, by which they and the conductor know each other. No worker gets it.
inline constexpr const char* rank_key_variable = "ASSAY_RANK_KEY";

// A worker gets PATH, HOME, the user's name, language and time zone, what chooses a GPU, where the dynamic linker looks for
// libraries, and ASSAY_*.
bool reaches_worker(std::string_view variable);

// The launcher of several ranks also gets what launchers read: the variables of MPI, PMIx and Slurm.
bool reaches_launcher(std::string_view variable);

}  // namespace assay
