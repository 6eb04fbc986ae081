#include <string_view>

#include "backends/onednn/loops/loops.hpp"
#include "backends/onednn/loops/norm.hpp"

namespace assay::onednn {

const NormTable& norm_loops() {
#if defined(__x86_64__)
  if (multiplies_bf16()) return norm_avx512_bf16;
  const std::string_view best = loops().name;
  if (best == "avx512") return norm_avx512;
  if (best == "avx2") return norm_avx2;
#endif
  return norm_x86_64;
}

}  // namespace assay::onednn
