#define ASSAY_LOOPS loops_avx512
#define ASSAY_LOOPS_NAME "avx512"
#include "backends/onednn/loops/loops.inc"
