// A numpy array of lists of whole numbers as pickle wrote it: what the sequences in Keras's imdb.npz are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace assay {

// Reads protocols 2 to 5 of pickle (https://github.com/python/cpython/blob/main/Lib/pickletools.py) as far as
// such an array needs them: numbers, texts, tuples, lists, the memo, and the four names by which numpy takes
// an array apart (_reconstruct, ndarray, dtype, _codecs.encode). Nothing is imported, called or executed: a
// name stands for itself, and any other name or opcode is refused by name. Throws IoError naming `path` and
// the byte.
std::vector<std::vector<std::int32_t>> read_pickled_lists(std::span<const std::byte> pickle,
                                                          const std::filesystem::path& path);

}  // namespace assay
