/* SPDX-License-Identifier: Apache-2.0 */
/* poetfw.h: trains and runs mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 *
 * The whole interface of the library beside it. A program that learns from a card that poetfw wrote:
 *
 *     struct poetfw net;
 *     int status = poetfw_open(&net);
 *     if (status == POETFW_OK) {
 *         status = poetfw_load(&net);
 *     }
 *     while (status == POETFW_OK && wants_to_learn()) {
 *         status = poetfw_train(&net);
 *     }
 *
 * - Nothing is allocated and nothing is printed. Whatever can fail returns an int: POETFW_OK, or a negative
 *   status of enum poetfw_status, of the application's storage, or of a board's driver (-16 or less).
 * - Sizes are in bytes. Features and outputs are one sample after the other, in the order of the model's axes
 *   (images: channel, row, column).
 * - The tensors are in one arena of POETFW_ARENA_BYTES, and there is one of each library: contexts do not
 *   share the work. A call that comes before another has returned, from an interrupt, another thread or the function
 *   between ops, does nothing and returns POETFW_ERROR_BUSY. On a core without atomic exchange of bytes (Cortex-M0+) two
 *   threads have to keep each other out. Two libraries in one program, each with a name of its own, know nothing of each other.
 */
#ifndef POETFW_H
#define POETFW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- The plan --- */

#define POETFW_VERSION "0.1.0" /* of the poetfw that wrote this */
#define POETFW_PLAN_ID 0x49400d45u /* names the plan; a storage image must agree */
#define POETFW_BOARD "nrf52840" /* for which it was made */
#define POETFW_BATCH 4u /* samples of a training step */
#define POETFW_X_BYTES 256u /* features of one sample */
#define POETFW_Y_BYTES 4u /* target of one sample */
#define POETFW_OUTPUT_BYTES 40u /* what is predicted of one sample */
#define POETFW_CLASSES 10 /* that are told apart; 0 where none are */
#define POETFW_PAGES 0 /* transfers of a step; 0: training needs no storage */
#define POETFW_ARENA_BYTES 56672u

/* Features of a sample. */
typedef float poetfw_input;

/* Class of a sample. */
typedef int32_t poetfw_target;

/* Output of the network for a sample. */
typedef float poetfw_output;


/* The same, for who has a library and not its header. */
struct poetfw_plan {
    uint32_t id;
    uint32_t batch;
    uint32_t x_bytes;
    uint32_t y_bytes;
    uint32_t output_bytes;
    uint32_t classes;
    uint32_t arena_bytes;
    uint32_t pages;
};

/* --- Definitions --- */

/* How a call ended. */
enum poetfw_status {
    POETFW_OK = 0,
    POETFW_ERROR_IMAGE = -1, /* the storage holds no image, or a damaged one */
    POETFW_ERROR_PLAN = -2, /* the image was made for another plan */
    POETFW_ERROR_STORAGE = -3, /* the storage did not do what it was told */
    POETFW_ERROR_ARGUMENT = -4, /* no such slot or batch, or not of that size */
    POETFW_ERROR_SLOT = -5, /* a slot has no valid trailer: nothing was written there */
    POETFW_ERROR_CRC = -6, /* a slot's payload is not what its trailer says was written */
    POETFW_ERROR_NO_PARTITION = -7, /* the storage has no partition table, or an empty one */
    POETFW_ERROR_FOREIGN = -8, /* the partition table is another's: not one partition alone, of type 0xda */
    POETFW_ERROR_PARTITION_START = -9, /* the partition begins beyond the storage's end, or at block 0 */
    POETFW_ERROR_PARTITION_END = -10, /* the partition ends beyond the storage's end */
    POETFW_ERROR_PARTITION_SIZE = -11, /* the partition is smaller than the image in it */
    POETFW_ERROR_VERSION = -12, /* the image is laid out as another version of poetfw does it */
    POETFW_ERROR_LOST = -13, /* the storage did not keep what was written to it */
    POETFW_ERROR_DATA = -14, /* a sample is not what was put into the storage */
    POETFW_ERROR_COMMIT = -15, /* no set of slots holds a whole commit */
    POETFW_ERROR_MIXED = -29, /* the storage holds parts of two images: write one image whole */
    POETFW_ERROR_ORDER = -128, /* a call that has to come before this one did not, or failed */
    POETFW_ERROR_SAMPLE = -129, /* samples, targets or outputs have not the size of the plan's */
    POETFW_ERROR_LABEL = -130, /* a label is none of the classes */
    POETFW_ERROR_WEIGHTS = -131, /* the program holds no initial weights */
    POETFW_ERROR_NO_STORAGE = -132, /* the application gave the library no storage */
    POETFW_ERROR_RING = -133, /* training since the last commit draws from the sample whose turn it is to go */
    POETFW_ERROR_ID = -134, /* the ring has no such sample, or it has its label */
    POETFW_ERROR_BUSY = -135, /* another call of the library has not returned yet */
    POETFW_ERROR_IN_STEP = -136, /* a training step is begun: end it, or open the storage to give it up */
    POETFW_ERROR_NOT_FINITE = -137, /* a feature or a target is infinite or not a number */
    POETFW_ERROR_DIVERGED = -138, /* the loss or a weight is infinite or not a number: load the last commit, or reset */
    POETFW_ERROR_NO_SAMPLES = -139, /* the storage has no samples to train on, and the ring has none with a label */
};

/* What a library knows between two calls. The application makes one and leaves its fields alone. */
struct poetfw {
    uint32_t plan;
    uint32_t done;
    uint32_t step;
    uint32_t image[18];
};

/* What a card asks for. */
struct poetfw_task {
    uint32_t steps;       /* training steps */
    uint32_t evaluations; /* batches of held-out samples to evaluate */
};

struct poetfw_metrics {
    uint32_t step;           /* trained in all: those of the loaded commit, and since */
    float loss;              /* the mean over the last training batch, before its update */
    float metric;            /* of the last evaluated batch: how many answers are right */
    uint32_t requests;       /* to the storage, each for neighbouring blocks */
    uint64_t read_bytes;     /* from the storage, since the start of the program */
    uint64_t written_bytes;  /* to the storage */
    uint32_t set;            /* of slots in the storage, which holds the last commit */
    uint32_t written_blocks; /* since the host wrote the storage, over all starts: what wears it */
};

/* --- Begin and end --- */

/* Opens the storage and looks at the image on it. Not needed where the weights come from
 * poetfw_reset and POETFW_PAGES is 0. Nothing need be set in the context before. What was loaded into a context, and
 * trained since, stays as it is, whether this fails or not: poetfw_save commits it to the storage that was opened, where the last
 * whole commit is not.
 *
 * POETFW_ERROR_IMAGE, _NO_PARTITION, _FOREIGN, _PARTITION_*: it holds no image that can be used.
 * POETFW_ERROR_PLAN: the image is another plan's. POETFW_ERROR_MIXED: the ring has samples of another image, which
 * this one was not written over wholly. Statuses of the storage, too. */
int poetfw_open(struct poetfw *context);

/* Makes the storage one for a device that begins by itself, and opens it: with an image of this plan that has no samples, and
 * no commit before poetfw_save. All that an image on it held is gone. `seed` is that of the samples' order; cards of one
 * plan that get different ones are never taken for parts of each other. `sets` commits are kept, 2 or more: with more of them each
 * wears less. After a cut in its middle the storage holds no image, and is formatted again.
 *
 * POETFW_ERROR_FOREIGN: its first block is the partition table or the boot sector of somebody else, and nothing is written; who
 * means it writes zeros there before. POETFW_ERROR_PARTITION_END: the storage is too small. POETFW_ERROR_ARGUMENT: fewer than 2
 * sets. POETFW_ERROR_LOST: the storage does not keep what is written. Else as poetfw_open. */
int poetfw_format(struct poetfw *context, uint32_t seed, uint32_t sets);

/* Loads parameters, optimizer state, running statistics and the number of steps as the last whole commit has
 * them: as poetfw wrote them, or as poetfw_save did last, wherever the power went. Training goes on from there
 * with the bits it would have had.
 *
 * POETFW_ERROR_ORDER: not opened. POETFW_ERROR_MIXED: a commit is of another image, which this one was not written over
 * wholly. POETFW_ERROR_COMMIT, _SLOT, _LOST, _CRC: the storage has no whole commit; an application whose program holds
 * weights may load once more, and then poetfw_reset. Else how reading it ended; then nothing is loaded. */
int poetfw_load(struct poetfw *context);

/* Begins anew: the initial weights that the program holds, and zeros elsewhere. Nothing is written to a storage.
 * A context that neither poetfw_open nor poetfw_format has had has to be zero: struct poetfw net = {0}.
 *
 * POETFW_ERROR_WEIGHTS: it holds none (see `poetfw build --weights-in-flash`). */
int poetfw_reset(struct poetfw *context);

/* Commits what poetfw_load reads: all of it or, if anything goes wrong, the commit before stays.
 *
 * POETFW_ERROR_ORDER: not opened, or nothing is loaded. POETFW_ERROR_DIVERGED: a weight is not finite; load or reset.
 * POETFW_ERROR_LOST: the storage does not keep it. Else statuses of the storage. */
int poetfw_save(struct poetfw *context);

/* Whether the card asks for a commit now: after so many steps, and at the end. */
int poetfw_save_is_due(const struct poetfw *context);

/* --- Train --- */

/* Trains one step on the next batch of the storage's samples; each epoch has an order of its own. A sample that cannot
 * be read as it was written is skipped: the next one in that order is in its place, and poetfw_damaged names it.
 *
 * POETFW_ERROR_ORDER: not opened, or nothing is loaded. POETFW_ERROR_NO_SAMPLES: there are none; nothing is trained then.
 * POETFW_ERROR_DIVERGED: the loss is not finite. POETFW_ERROR_MIXED: a sample is of another image.
 * POETFW_ERROR_DATA: more than 16 samples are damaged, or more than one of eight. Else statuses of the storage. After these four
 * the tensors are half updated, or no numbers any more, and must be loaded or reset. */
int poetfw_train(struct poetfw *context);

/* Trains one step on POETFW_BATCH samples: features [POETFW_BATCH][POETFW_X_BYTES / 4], and targets
 * [POETFW_BATCH][POETFW_Y_BYTES / 4]. Both are read as long as the call takes. The storage is used
 * where POETFW_PAGES is not 0 only.
 *
 * POETFW_ERROR_SAMPLE: x_bytes or y_bytes are not those of a batch. POETFW_ERROR_LABEL: a target is not in
 * [0, POETFW_CLASSES). POETFW_ERROR_NOT_FINITE: a feature or a target is infinite or not a number. POETFW_ERROR_ORDER: nothing is
 * loaded, or the plan pages and the storage is not opened. Nothing is trained then. Else as poetfw_train. */
int poetfw_train_on(struct poetfw *context, const poetfw_input *x, uint32_t x_bytes, const poetfw_target *y,
                    uint32_t y_bytes);

/* Which samples. */
enum poetfw_samples {
    POETFW_TRAINING_SAMPLES,
    POETFW_HELD_OUT_SAMPLES,
    POETFW_RING_SAMPLES, /* by their place; see poetfw_ring */
};

/* Says which sample is damaged: the `index`th, from 0 on, that turned out to be since poetfw_open. Numbers are counted
 * from 0, in the order of the data set.
 *
 * POETFW_ERROR_ARGUMENT: there are not so many. POETFW_ERROR_ORDER: not opened. */
int poetfw_damaged(const struct poetfw *context, uint32_t samples, uint32_t index, uint32_t *number);

/* POETFW_OK where a call would be let in now; POETFW_ERROR_BUSY while another has not returned, and POETFW_ERROR_IN_STEP while a
 * step is begun and not ended. For an interrupt or another thread that would rather not ask in vain. */
int poetfw_busy(void);

/* Has `call` called with `argument` after every op of all that trains, evaluates and predicts, so that a watchdog,
 * a main loop or a task of a real-time system has its turn; NULL for nothing. Calls of the library that it makes return
 * POETFW_ERROR_BUSY. No slice between two calls is longer than the longest op. */
void poetfw_between_ops(void (*call)(void *argument), void *argument);

/* --- Use --- */

/* What the network says of one sample: features [POETFW_X_BYTES / 4] in, [POETFW_OUTPUT_BYTES / 4] out.
 * No label, no storage; beside the parameters it uses the arena's bytes that training uses too.
 *
 * POETFW_ERROR_SAMPLE: a size is not that of the plan. POETFW_ERROR_NOT_FINITE: a feature is infinite or not a number.
 * POETFW_ERROR_ORDER: nothing is loaded. */
int poetfw_predict(struct poetfw *context, const poetfw_input *x, uint32_t x_bytes, poetfw_output *output,
                   uint32_t output_bytes);

/* Evaluates batch `batch`, from 1 on, of the storage's held-out samples; see poetfw_metrics.
 *
 * POETFW_ERROR_ARGUMENT: there is no such batch. POETFW_ERROR_ORDER: not opened, or nothing is
 * loaded. Else statuses of the storage. */
int poetfw_evaluate(struct poetfw *context, uint32_t batch);

/* --- Know --- */

/* What the opened card asks for. POETFW_ERROR_ORDER: not opened. */
int poetfw_task(const struct poetfw *context, struct poetfw_task *task);

/* What came of it. POETFW_ERROR_ORDER: nothing is loaded. */
int poetfw_metrics(const struct poetfw *context, struct poetfw_metrics *metrics);

/* What a status means, in English; never NULL. */
const char *poetfw_status_text(int status);

const struct poetfw_plan *poetfw_plan(void);

/* POETFW_VERSION of the library, which may have been compiled apart from this header. */
const char *poetfw_version(void);

/* --- Place --- */

/* The arena is `poet_arena`. POETFW_ARENA, where it is defined when the library is compiled, stands before
 * its definition: -DPOETFW_ARENA='__attribute__((section(".sdram")))'. */

/* The storage of an application of your own, in blocks of 512 bytes. Not there in a project of
 * poetfw's, whose board has drivers. */
struct poetfw_storage {
    void *argument;
    /* How many blocks there are. Each returns 0, or a negative status of its own. */
    int (*blocks)(void *argument, uint32_t *blocks);
    int (*read)(void *argument, uint32_t block, void *ram, uint32_t count);
    int (*write)(void *argument, uint32_t block, const void *ram, uint32_t count);
    /* Sees to it that what was written stays, and before anything that is written later; NULL where each write
     * does. */
    int (*flush)(void *argument);
};

/* Says where the storage is, before poetfw_open; it is used for as long as the program runs. */
void poetfw_use_storage(const struct poetfw_storage *storage);

#ifdef __cplusplus
}
#endif

#endif
