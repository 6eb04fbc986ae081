#define ASSAY_LOOPS loops_x86_64
#define ASSAY_LOOPS_NAME "x86_64"
#include "backends/onednn/loops/loops.inc"
