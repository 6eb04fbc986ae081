#define ASSAY_ATTENTION attention_avx2
#include "backends/onednn/loops/attention.inc"
