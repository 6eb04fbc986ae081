#define ASSAY_ATTENTION attention_x86_64
#include "backends/onednn/loops/attention.inc"
