#define ASSAY_ATTENTION attention_x86_64_bf16
#define ASSAY_LOOPS_PAIRS
#include "backends/onednn/loops/attention.inc"
