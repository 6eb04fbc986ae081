#define ASSAY_LSTM lstm_avx512_bf16
#define ASSAY_LOOPS_PAIRS
#include "backends/onednn/loops/lstm.inc"
