#define ASSAY_NORM norm_x86_64
#include "backends/onednn/loops/norm.inc"
