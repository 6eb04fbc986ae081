// Work on many files at once, before anything is measured.
#pragma once

#include <cstddef>
#include <functional>

namespace assay {

// Calls work(i) once for each i below `count`, in up to eight threads. Throws the exception of the smallest i that
// throws; larger ones may then be left out.
void in_threads(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace assay
