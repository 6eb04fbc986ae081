#define ASSAY_ATTENTION attention_avx512_bf16
#define ASSAY_LOOPS_PAIRS
#include "backends/onednn/loops/attention.inc"
