/* SPDX-License-Identifier: Apache-2.0 */
/* The data set: which samples make up a batch, and how they reach the arena. */
#ifndef POET_DATA_H
#define POET_DATA_H

#include <stdint.h>

/* A sample whose record cannot be read as it was written is damaged: the next one in order is in its place from then on. So many
 * may be, and one of every eight training samples, or held-out ones. */
#define POET_MOST_DAMAGED 16u

/* Samples in storage: fixed-size records of x bytes, y bytes, and a CRC-32 of each, combined with the image's identity, of
 * y with its complement (by exclusive or), padded to whole blocks. */
struct poet_samples {
    uint32_t first_block;
    uint32_t count;
    uint32_t record_blocks;
};

/* Makes batch `step` (0-based) of training, in shuffled order, the current one. Each epoch uses the
 * first floor(count / POET_BATCH) * POET_BATCH positions of its permutation. count >= POET_BATCH, or 0: then all come from the ring,
 * and POET_ERROR_NO_SAMPLES says that it has none to draw.
 * Of this and the next, `samples` is read as long as the batch is the current one. */
int poet_data_select_training(const struct poet_samples *samples, uint32_t seed, uint32_t step);

/* Makes batch `batch` (0-based), in storage order, the current one. */
void poet_data_select_evaluation(const struct poet_samples *samples, uint32_t batch);

/* Makes a batch that is in memory the current one: POET_BATCH samples' features, and their targets. */
void poet_data_select_given(const void *x, const void *y);

/* Forgets which samples are damaged: another image is in the storage. */
void poet_data_open(void);

/* How many of some samples have turned out to be damaged, and which one did as the `index`th, from 0 on, if so many have. */
uint32_t poet_data_damaged(const struct poet_samples *samples, uint32_t index, uint32_t *number);

/* Read the current batch: POET_BATCH * POET_X_BYTES of features, POET_BATCH * POET_Y_BYTES of labels.
 * POET_ERROR_MIXED: a sample is of another image. POET_ERROR_DATA, or a status of the storage: too many samples are damaged, or one
 * has become so within a step. */
int poet_data_load_x(void *x);
int poet_data_load_y(void *y);

/* The same for one member of each sample, which begins at byte `first` of it: [POET_BATCH][bytes]. */
int poet_data_load_x_member(void *x, uint32_t first, uint32_t bytes);
int poet_data_load_y_member(void *y, uint32_t first, uint32_t bytes);

#endif
