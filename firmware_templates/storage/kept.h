/* SPDX-License-Identifier: Apache-2.0 */
/* Kept features: outputs of the training step's frozen part, which are the same in every epoch. Each training sample
 * has a record of POET_KEPT_BLOCKS blocks, between the held-out samples and the slots: its features, its target, and
 * their CRC-32 xored with the identity of the image plus the sample's number. The identity includes the plan and so the
 * frozen weights; a record that is torn, stale or was never written has another CRC, and is calculated again. */
#ifndef POET_KEPT_H
#define POET_KEPT_H

#include "plan.h"

#include <stdint.h>

#if POET_KEPT_BYTES > 0

/* The first record begins at a multiple of this block number: 4 KiB, the erase unit of flash. */
#define POET_KEPT_ALIGNMENT 8u

/* Sets the first block of sample 0's record. */
void poet_kept_open(uint32_t first_block);

/* Reads the features of a sample and its target. POET_ERROR_DATA: they are not kept. Else a status of the storage. */
int poet_kept_read(uint32_t sample, void *features, void *target);

/* Writes them through the page buffer. */
int poet_kept_write(uint32_t sample, const void *features, const void *target);

#endif

#endif
