/* The header in C11, and a whole supply as a C program sees it. */
#include "harness/batch/c_api.h"

#include <math.h>
#include <stdlib.h>

/* Runs a cell to its end; returns the timed blocks, or -1. */
int assay_test_run_cell(const char* cell_folder) {
  if (assay_api_version() != ASSAY_BATCH_API) return -1;
  assay_supply* supply = assay_open(cell_folder);
  if (supply == NULL) return -1;
  assay_layout layout;
  int timed = -1;
  if (assay_get_layout(supply, &layout) == 0 && assay_schedule(supply) != NULL) {
    float* inputs = malloc((size_t)(layout.batch * layout.sample_elements) * sizeof *inputs);
    int32_t* labels = malloc((size_t)layout.batch * sizeof *labels);
    float* logits = calloc((size_t)(layout.batch * layout.classes), sizeof *logits);
    assay_block block;
    timed = 0;
    while (timed >= 0 && assay_next_block(supply, &block) == 0 && block.kind != ASSAY_DONE) {
      for (int64_t i = 0; i < block.steps; ++i) {
        if (assay_next_batch(supply, inputs, labels) < 0) timed = -1;
        if (block.kind == ASSAY_EVALUATE && assay_add_logits(supply, logits) != 0) timed = -1;
      }
      if (timed >= 0 && block.kind == ASSAY_TIMED) ++timed;
      if (assay_end_block(supply, NAN) != 0) timed = -1;
    }
    free(inputs);
    free(labels);
    free(logits);
  }
  if (assay_close(supply) != 0) timed = -1;
  return timed;
}
