#include "backends/onednn/loops/loops.hpp"
#include "backends/onednn/loops/lstm.hpp"

namespace assay::onednn {

// For the instruction set that the other loops chose, with its products of bf16.
const LstmLoops& lstm_loops(bool narrow) {
#if defined(__x86_64__)
  if (narrow && multiplies_bf16()) return lstm_avx512_bf16;
  if (&loops() == &loops_avx512) return lstm_avx512;
  if (&loops() == &loops_avx2) return lstm_avx2;
#endif
  return lstm_x86_64;
}

}  // namespace assay::onednn
