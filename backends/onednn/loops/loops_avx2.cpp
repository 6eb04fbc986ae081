#define ASSAY_LOOPS loops_avx2
#define ASSAY_LOOPS_NAME "avx2"
#include "backends/onednn/loops/loops.inc"
