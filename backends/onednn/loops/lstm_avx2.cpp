#define ASSAY_LSTM lstm_avx2
#include "backends/onednn/loops/lstm.inc"
