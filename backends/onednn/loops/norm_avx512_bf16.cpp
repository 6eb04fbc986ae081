#define ASSAY_NORM norm_avx512_bf16
#include "backends/onednn/loops/norm.inc"
