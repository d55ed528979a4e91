/* SPDX-License-Identifier: Apache-2.0 */
/* Data set: composition of batches, and their transfer to the arena. */
#ifndef POET_DATA_H
#define POET_DATA_H

#include <stdint.h>

/* A sample whose record is not intact is damaged and replaced by the next one in order from then on. This many may be
 * damaged, and one of every eight training or held-out samples. */
#define POET_MOST_DAMAGED 16u

/* Samples in storage: records of fixed size with x bytes, y bytes, and a CRC-32 of each, padded to whole blocks. CRCs
 * are xored with the image's identity, that of y with its complement. */
struct poet_samples {
    uint32_t first_block;
    uint32_t count;
    uint32_t record_blocks;
};

/* Selects training batch `step` (0-based) in shuffled order. Each epoch uses the first floor(count / POET_BATCH) *
 * POET_BATCH positions of its permutation. count >= POET_BATCH, or 0: then all samples come from the ring, and
 * POET_ERROR_NO_SAMPLES means that it has none. Here and below, `samples` must stay valid while the batch is current.
 * */
int poet_data_select_training(const struct poet_samples *samples, uint32_t seed, uint32_t step);

/* Selects held-out batch `batch` (0-based), in storage order. */
void poet_data_select_evaluation(const struct poet_samples *samples, uint32_t batch);

/* Selects a batch in memory: features of POET_BATCH samples, and their targets. */
void poet_data_select_given(const void *x, const void *y);

/* Forgets which samples are damaged: the storage holds another image. */
void poet_data_open(void);

/* Number of damaged samples found so far, and the `index`th of them, counted from 0, if there are as many. */
uint32_t poet_data_damaged(const struct poet_samples *samples, uint32_t index, uint32_t *number);

/* Read the current batch: POET_BATCH * POET_X_BYTES of features, POET_BATCH * POET_Y_BYTES of labels.
 * POET_ERROR_MIXED: a sample belongs to another image. POET_ERROR_DATA, or a status of the storage: too many samples
 * are damaged, or one became damaged within a step. */
int poet_data_load_x(void *x);
int poet_data_load_y(void *y);

/* The same for one member of each sample, which begins at byte `first` of it: [POET_BATCH][bytes]. */
int poet_data_load_x_member(void *x, uint32_t first, uint32_t bytes);
int poet_data_load_y_member(void *y, uint32_t first, uint32_t bytes);

/* Features that are kept of the current training batch (kept.h), [POET_BATCH][POET_KEPT_BYTES]. Reads those of all its
 * samples, and their targets, which poet_data_load_y then copies; returns 0 if those of any are not intact: `features`
 * is undefined then, and the step calculates them. A batch in the caller's memory has none. */
int poet_data_load_kept(void *features);

/* Keeps the features of the batch. An error of the storage only means that they are calculated again. */
void poet_data_keep(const void *features);

#endif
