#define ASSAY_LSTM lstm_avx512_bf16
#define ASSAY_LSTM_PAIRS
#include "backends/onednn/loops/lstm.inc"
