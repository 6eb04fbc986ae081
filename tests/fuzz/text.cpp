#include <array>

#include "harness/conductor/data/text_tokens.hpp"
#include "harness/conductor/data/vocabulary.hpp"
#include "tests/fuzz/fuzz.hpp"

ASSAY_FUZZ(std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
           if (assay::find_bad_utf8(text) != std::string_view::npos) return;
           const auto words = assay::split_words(text); assay::Vocabulary vocabulary; vocabulary.add(words);
           vocabulary.rank(); std::array<std::int32_t, 16> row{};
           assay::write_tokens(vocabulary.ranks_of(words), row);
           for (const std::int32_t token : row) if (token < 0 || token >= assay::token_vocabulary)
               __builtin_trap();)
