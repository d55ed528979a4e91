/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: samples of the device's own, in storage behind the sets, with POET_RING places that are taken in turn.
 *
 * A place has two parts, a sample's features and its label, each of which begins at a multiple of 4 KiB, so that
 * flash which is erased for one holds nothing else. A part is its payload, zeros, and in the last 16 bytes of its
 * last block:
 *     u32 CRC-32 of the payload and what follows
 *     u32 magic 0x474e4952 ("RING"), combined with the identity of the image (by exclusive or)   u32 id   u32 event
 * Events, appending and labelling, are counted from 1 on, and a sample's id is the event that appended it. A part that is
 * not whole is as if it were not there, and so is the label of another sample. A whole part of another image is an error: then
 * the storage holds parts of two.
 *
 * A commit says how many events there were. Until the next one, samples are drawn from those alone that were labelled by
 * then: so a training that goes on from it draws what it would have drawn. There is nothing of it where POET_RING is 0.
 */
#ifndef POET_RING_H
#define POET_RING_H

#include "plan.h"

#include "storage.h"

#include <stdint.h>

struct poet_ring_counts {
    uint32_t samples;
    uint32_t labelled;   /* of them */
    uint32_t drawn;      /* of those, what samples are drawn from */
    uint32_t unlabelled; /* the oldest sample without a label, or 0 */
    uint32_t damaged;    /* places with a part that was written and is not whole */
};

/* Blocks of all places. */
uint32_t poet_ring_blocks(void);

/* Makes the places there ones that hold no sample. Statuses as poet_storage_wipe's. */
int poet_ring_wipe(uint32_t first_block);

/* Finds the samples that are there, all of which it reads. POET_ERROR_MIXED: one is of another image. Statuses of the storage. */
int poet_ring_open(uint32_t first_block);

/* How many events there were; and that a commit was made, or loaded, when there had been so many. */
uint32_t poet_ring_events(void);
void poet_ring_commit(uint32_t events);

/* Looks what there is where appending or labelling has failed, for the storage may have it all the same. Comes before
 * anything that the next start would do by what it finds: counting, drawing, and a commit. Returns statuses of the storage. */
int poet_ring_settle(void);

/* Puts a sample in the place that is next in turn; `y` is its target, or NULL.
 * POET_ERROR_RING: with `keep`, where samples are drawn from the one that is there. POET_ERROR_LOST: the storage does not
 * keep it. */
int poet_ring_append(const void *x, const void *y, int keep, uint32_t *id);

/* Gives a sample its target. POET_ERROR_ID: there is no such sample, or it has one. */
int poet_ring_label(uint32_t id, const void *y);

struct poet_ring_counts poet_ring_count(void);

/* The place of the `index`th damaged sample, in the order of places; there are more. */
uint32_t poet_ring_damaged(uint32_t index);

/* Read the features, or the target, of the sample that is drawn as the `draw`th, and keep what is wanted of them; some are drawn
 * from. If `ram` is NULL they go nowhere. POET_ERROR_DATA: they are not what was put there. */
int poet_ring_draw_x(uint32_t draw, uint32_t seed, const struct poet_window *wanted, void *ram);
int poet_ring_draw_y(uint32_t draw, uint32_t seed, const struct poet_window *wanted, void *ram);

/* Looks what the next start would find where the sample is that is drawn as the `draw`th, after reading it has failed. */
int poet_ring_look_again(uint32_t draw, uint32_t seed);

#endif
