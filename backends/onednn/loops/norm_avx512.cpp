#define ASSAY_NORM norm_avx512
#include "backends/onednn/loops/norm.inc"
