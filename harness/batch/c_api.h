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
 * Threads: one supply belongs to one thread; the loader's own threads are inside. No function allocates in a
 * timed block. */
#ifndef ASSAY_BATCH_C_API_H
#define ASSAY_BATCH_C_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASSAY_BATCH_API 8 /* assay_api_version() must equal it */

typedef struct assay_supply assay_supply;

int32_t assay_api_version(void);
const char* assay_last_error(void);

/* Reads request.json, schedule.npy and the data manifest of the cell folder, maps the arrays and starts the
 * loader's threads. */
assay_supply* assay_open(const char* cell_folder);
/* Stops the threads, writes results/clock.json if a step was timed, and frees the supply. NULL is
 * allowed. */
int assay_close(assay_supply* supply);

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

int assay_get_layout(assay_supply* supply, assay_layout* layout);
/* float64 (schedule_rows, 2), row-major: learning rate, step count from 1. Owned by the supply. Row i is for
 * step i. */
const double* assay_schedule(assay_supply* supply);

/* Fills inputs f32 or i32 (B, sample_shape...) and labels i32 (B) or (B, T). At a position, the label -1 does
 * not count. */
int assay_read_resident(assay_supply* supply, int64_t slot, void* inputs, int32_t* labels);
/* The next batch of the current block. Returns its number of true samples: fewer than B only in an
 * evaluation, where the rest of inputs is zero and the rest of labels is -1. The time spent waiting here counts
 * as the block's loader wait. */
int64_t assay_next_batch(assay_supply* supply, void* inputs, int32_t* labels);

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
int assay_next_block(assay_supply* supply, assay_block* block);
/* Optional, not within an evaluation: call when every step of the block was handed over, before the device is
 * drained. */
int assay_enqueued(assay_supply* supply);
/* Call when every update of the block is complete (the device is drained). `loss` is the mean loss of the last
 * step; NaN if there is none. 1: without training, the results of the last step are asked for now
 * (assay_results_read). */
int assay_end_block(assay_supply* supply, double loss);
/* Optional, between the end of a training block and the begin of the next: the share of the block's samples whose
 * largest logit was the label's, as the loop counted it while it trained (request.json has "running_accuracy"). */
int assay_running_accuracy(assay_supply* supply, double accuracy);
/* Task infer: call after each step, when its result is complete; records one latency. Task decode: the same
 * after each token. 1: the result is asked for now (assay_results_read). */
int assay_lap(assay_supply* supply);
/* Task decode: call when the logits of a prompt are complete, before its first token; records one prefill. */
int assay_lap_prefill(assay_supply* supply);

/* When results are asked for, read them into host memory, call this, and do both once more. The second reading only
 * copies; so whatever the first one needs beyond it was not complete when the lap or the block ended. This is asked of a
 * few steps, drawn at random, in at most 0.25 % of the time of the timed blocks, and of the last step of the run. */
int assay_results_read(assay_supply* supply);

/* ---- ranks ---- */

/* For workers that train one model together (`world` of request.json is above 1): they must run the same blocks.
 * Returns, on every rank, the value that rank 0 gave, after all ranks have called it. The values are 0 or more; a
 * negative result means that it failed. */
typedef int64_t (*assay_agree)(void* context, int64_t value);
/* Then required before the first block. The function is called by assay_next_block before the clock starts, so that all
 * ranks begin a block together, and by assay_end_block after the clock has stopped; never within a block. */
int assay_set_agree(assay_supply* supply, assay_agree agree, void* context);

/* Within an evaluation block: logits f32 (B, classes) or (B, T, classes) of the current batch; rows after the
 * true samples are ignored. Accumulates mean cross-entropy and accuracy (arg max, lowest index wins a tie) in
 * double, over all labels that count. */
int assay_add_logits(assay_supply* supply, const float* logits);

/* Steps done and steps planned, warm-up included: for a progress message between blocks. */
int assay_progress(assay_supply* supply, int64_t* done, int64_t* planned);

/* ---- the exam ---- */

/* For the command verify: a worker opens the exam, does what assay_exam_next() says until that returns 0, and closes
 * it, which writes results/verify.safetensors. Only this library decides what is staged, computed and read. */
typedef struct assay_exam assay_exam;

enum { ASSAY_U8 = 2, ASSAY_F64 = 3 }; /* further types of tensors */

/* Row-major. */
typedef struct {
  const char* name;
  int64_t type;
  int64_t rank;
  int64_t shape[8];
  const void* data;
} assay_tensor;

enum {
  ASSAY_EXAM_STAGE = 1,       /* keep a copy of the batch `tensors`, inputs and labels, in `slot` */
  ASSAY_EXAM_SET_STATE = 2,   /* set `tensors`; what they do not name begins again */
  ASSAY_EXAM_STEP = 3,        /* enqueue the timed step on `slot`, with `learning_rate` and number `step` */
  ASSAY_EXAM_PREFILL = 4,     /* task decode: enqueue the prompts of `slot` */
  ASSAY_EXAM_NEXT_TOKEN = 5,  /* task decode: enqueue the next token of `slot` */
  ASSAY_EXAM_SYNCHRONIZE = 6, /* wait for all that was enqueued */
  ASSAY_EXAM_RESULTS = 7,     /* give the results of the last step */
  ASSAY_EXAM_STATE = 8,       /* give parameters, running statistics and moments */
  ASSAY_EXAM_LOSS = 9,        /* give the loss of the last step: one number */
  ASSAY_EXAM_EVALUATE = 10,   /* give "logits" of the batch `tensors` in inference mode */
  ASSAY_EXAM_MASKS = 11,      /* use the masks `tensors` from the next step on; none: draw them again */
  ASSAY_EXAM_SEED =
      12, /* begin the generator of masks again with `value`; answer 1, or 0 if that is not possible */
  ASSAY_EXAM_DRAW =
      13, /* give the masks that a step on `slot` draws now; it may be made, with number `step` */
  ASSAY_EXAM_RESULTS_READ = 14, /* give the results that were read last while it ran (assay_results_read) */
  ASSAY_EXAM_OWN_LOADER = 15,   /* give what shows the framework's own loader */
  ASSAY_EXAM_AGREE = 16         /* answer the `value` of rank 0; alone, its own */
};

typedef struct {
  int32_t kind;
  int64_t slot;
  int64_t step;
  int64_t value;
  double learning_rate;
  int64_t count; /* of tensors. They are read before the next call; then their memory gets other numbers */
  const assay_tensor* tensors;
} assay_exam_action;

/* last_step: the number of the last step that ran; -1 if nothing ran. own_loader: not 0 if the framework's own loader
 * gave the batches. */
assay_exam* assay_exam_open(const char* cell_folder, int64_t last_step, int own_loader);
/* For a worker that takes several steps on its resident batches in one call: steps of the run that are continued follow each
 * other over this many slots in turn, so that steps without a wait between them are such a call, too. Before the first
 * assay_exam_next(). */
int assay_exam_slots_in_turn(assay_exam* exam, int64_t slots);
/* 1: there is an action; 0: all is done. */
int assay_exam_next(assay_exam* exam, assay_exam_action* action);
/* A tensor of what the action asks for; it is copied. */
int assay_exam_give(assay_exam* exam, const assay_tensor* tensor);
int assay_exam_answer(assay_exam* exam, int64_t value);
/* Writes the answers if all is done, and frees the exam. NULL is allowed. */
int assay_exam_close(assay_exam* exam);

#ifdef __cplusplus
}
#endif
#endif
