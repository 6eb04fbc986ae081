#define ASSAY_LSTM lstm_x86_64
#include "backends/onednn/loops/lstm.inc"
