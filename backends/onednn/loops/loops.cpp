#include "backends/onednn/loops/loops.hpp"

namespace assay::onednn {

const Loops& loops() {
#if defined(__x86_64__)
  static const Loops& best = []() -> const Loops& {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      return loops_avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return loops_avx2;
    return loops_x86_64;
  }();
  return best;
#else
  return loops_x86_64;
#endif
}

bool multiplies_bf16() {
#if defined(__x86_64__)
  return &loops() == &loops_avx512 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace assay::onednn
