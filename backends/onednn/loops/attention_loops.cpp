#include "backends/onednn/loops/attention.hpp"
#include "backends/onednn/loops/loops.hpp"

namespace assay::onednn {

// For the instruction set that the other loops chose, with its products of bf16.
const AttentionLoops& attention_loops(bool narrow) {
#if defined(__x86_64__)
  if (narrow) return multiplies_bf16() ? attention_avx512_bf16 : attention_x86_64_bf16;
  if (&loops() == &loops_avx512) return attention_avx512;
  if (&loops() == &loops_avx2) return attention_avx2;
  return attention_x86_64;
#else
  return narrow ? attention_x86_64_bf16 : attention_x86_64;
#endif
}

}  // namespace assay::onednn
