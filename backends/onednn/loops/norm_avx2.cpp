#define ASSAY_NORM norm_avx2
#include "backends/onednn/loops/norm.inc"
