/* The batch library: the one loader, the one clock and the one evaluator of every worker, in any language.
 *
 * A worker opens its cell folder and then does what assay_next_block() says until it says that all is done.
 * Only this library decides which steps are warm-up, the length of a block, the timed steps, the samples of a
 * batch and how to count accuracy. All times come from CLOCK_MONOTONIC, so that the conductor's samples of the
 * machine share the axis.
 *
 * Errors: a function that returns int gives 0 or more when it succeeds and -1 when it fails; one that returns
 * a pointer gives NULL. assay_last_error() then returns the error, its place and the remedy (per thread, valid
 * until the next call).
 * Threads: one session belongs to one thread; the loader's own threads are inside. No function allocates in a
 * timed block. */
#ifndef ASSAY_BATCH_C_API_H
#define ASSAY_BATCH_C_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASSAY_BATCH_API 7 /* assay_api_version() must equal it */

typedef struct assay_session assay_session;

int32_t assay_api_version(void);
const char* assay_last_error(void);

/* Reads request.json, schedule.npy and the data manifest of the cell folder, maps the arrays and starts the
 * loader's threads. */
assay_session* assay_open(const char* cell_folder);
/* Stops the threads, writes results/clock.json if a step was timed, and frees the session. NULL is
 * allowed. */
int assay_close(assay_session* session);

/* ---- the shape of a batch ---- */

enum { ASSAY_F32 = 0, ASSAY_I32 = 1 };

typedef struct {
  int64_t batch; /* samples a step, B */
  int64_t rank;  /* dimensions of one sample: 3 for (C, H, W) */
  int64_t sample_shape[8];
  int64_t sample_elements; /* product of sample_shape */
  int64_t classes;
  /* R > 0: read once with assay_read_resident and rotate, slot = step % R; 0: assay_next_batch each step */
  int64_t resident_batches;
  int64_t schedule_rows; /* steps that the schedule has */
  int64_t input_type; /* type of a sample's elements: ASSAY_F32, or ASSAY_I32 for tokens. Both have 4 bytes */
  /* 0: a sample has one label. T > 0: it has T labels; then labels are i32 (B, T) and logits f32 (B, T, classes) */
  int64_t positions;
} assay_layout;

int assay_get_layout(assay_session* session, assay_layout* layout);
/* float64 (schedule_rows, 2), row-major: learning rate, step count from 1. Owned by the session. Row i is for
 * step i. */
const double* assay_schedule(assay_session* session);

/* Fills inputs f32 or i32 (B, sample_shape...) and labels i32 (B) or (B, T). At a position, the label -1 does
 * not count. */
int assay_read_resident(assay_session* session, int64_t slot, void* inputs, int32_t* labels);
/* The next batch of the current block. Returns its number of true samples: fewer than B only in an
 * evaluation, where the rest of inputs is zero and the rest of labels is -1. The time spent waiting here counts
 * as the block's loader wait. */
int64_t assay_next_batch(assay_session* session, void* inputs, int32_t* labels);

/* ---- the block clock ---- */

enum { ASSAY_DONE = 0, ASSAY_WARM_UP = 1, ASSAY_TIMED = 2, ASSAY_EVALUATE = 3 };

typedef struct {
  int32_t kind;
  int32_t epoch; /* from 1; 0 if the fork counts steps */
  int64_t steps; /* number of steps to run */
  /* global index of the first of them: row of the schedule, slot = (first_step + i) % R */
  int64_t first_step;
} assay_block;

/* Returns the next block; its clock starts when this function returns. */
int assay_next_block(assay_session* session, assay_block* block);
/* Optional, not within an evaluation: call when every step of the block was handed over, before the device is
 * drained. */
int assay_enqueued(assay_session* session);
/* Call when every update of the block is complete (the device is drained). `loss` is the mean loss of the last
 * step; NaN if there is none. 1: without training, the results of the last step are asked for now
 * (assay_results_read). */
int assay_end_block(assay_session* session, double loss);
/* Optional, between the end of a training block and the begin of the next: the share of the block's samples whose
 * largest logit was the label's, as the loop counted it while it trained (request.json has "running_accuracy"). */
int assay_running_accuracy(assay_session* session, double accuracy);
/* Task infer: call after each step, when its result is complete; records one latency. Task decode: the same
 * after each token. 1: the result is asked for now (assay_results_read). */
int assay_lap(assay_session* session);
/* Task decode: call when the logits of a prompt are complete, before its first token; records one prefill. */
int assay_lap_prefill(assay_session* session);

/* When results are asked for, read them into host memory, call this, and do both once more. The second reading only
 * copies; so whatever the first one needs beyond it was not complete when the lap or the block ended. This is asked of a
 * few steps, drawn at random, in at most 0.25 % of the time of the timed blocks, and of the last step of the run. */
int assay_results_read(assay_session* session);

/* ---- ranks ---- */

/* For workers that train one model together (`world` of request.json is above 1): they must run the same blocks.
 * Returns, on every rank, the value that rank 0 gave, after all ranks have called it. The values are 0 or more; a
 * negative result means that it failed. */
typedef int64_t (*assay_agree)(void* context, int64_t value);
/* Then required before the first block. The function is called by assay_next_block before the clock starts, so that all
 * ranks begin a block together, and by assay_end_block after the clock has stopped; never within a block. */
int assay_set_agree(assay_session* session, assay_agree agree, void* context);

/* Within an evaluation block: logits f32 (B, classes) or (B, T, classes) of the current batch; rows after the
 * true samples are ignored. Accumulates mean cross-entropy and accuracy (arg max, lowest index wins a tie) in
 * double, over all labels that count. */
int assay_add_logits(assay_session* session, const float* logits);

/* Steps done and steps planned, warm-up included: for a progress message between blocks. */
int assay_progress(assay_session* session, int64_t* done, int64_t* planned);

#ifdef __cplusplus
}
#endif
#endif
