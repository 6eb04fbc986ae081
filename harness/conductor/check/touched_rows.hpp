// Which rows of a table a lazy optimizer may change.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/graph/program.hpp"

namespace assay {

// By row of the parameter: whether the tokens of check/inputs.npy name it. Empty where every row is updated:
// another optimizer than lazy_adam, or a dense gradient. Throws std::runtime_error when the file is not what
// the graph reads.
std::vector<bool> touched_rows(const std::filesystem::path& cell_folder, const Program& program,
                               ValueId parameter);

}  // namespace assay
