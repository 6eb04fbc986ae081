#define ASSAY_ATTENTION attention_avx512
#include "backends/onednn/loops/attention.inc"
