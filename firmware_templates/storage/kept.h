/* SPDX-License-Identifier: Apache-2.0 */
/* Kept features: outputs of the training step's frozen part, which are the same in every epoch. Each training sample
 * has a record: its features and its target; behind those of the card's samples is one for each place of the ring. It
 * says of which version of the sample it is, that is, of which label event; 0 for samples of the card.
 *
 * In storage, a record has POET_KEPT_BLOCKS blocks, between the held-out samples and the slots. Behind the target is
 * the CRC-32 of both, xored with the identity of the image plus the record's number and a multiple of the version. The
 * identity includes the plan and so the frozen weights; a record that is torn, stale or was never written has another
 * CRC, and is calculated again. In RAM, there are POET_KEPT_RECORDS records, none of them valid after a start. */
#ifndef POET_KEPT_H
#define POET_KEPT_H

#include "plan.h"

#include <stdint.h>

#if POET_KEPT_BYTES > 0

/* The first record begins at a multiple of this block number: 4 KiB, the erase unit of flash. */
#define POET_KEPT_ALIGNMENT 8u

/* A record, and the version of its sample. */
struct poet_kept_record {
    uint32_t number;
    uint32_t version;
};

/* Sets the first block of record 0. In RAM, forgets all records. */
void poet_kept_open(uint32_t first_block);

/* Reads a record's features and target. POET_ERROR_DATA: they are not kept. Else a status of the storage. */
int poet_kept_read(const struct poet_kept_record *record, void *features, void *target);

/* Writes them, to storage through the page buffer. */
int poet_kept_write(const struct poet_kept_record *record, const void *features, const void *target);

#endif

#endif
