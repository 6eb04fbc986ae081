#define ASSAY_LSTM lstm_avx512
#include "backends/onednn/loops/lstm.inc"
