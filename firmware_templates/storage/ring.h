/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: samples recorded by the device, in storage behind the sets, with POET_RING places used in turn.
 *
 * A place has two parts, a sample's features and its label, each aligned to 4 KiB, so that flash erased for one holds
 * nothing else. A part is its payload, zero padding, and in the last 16 bytes of its last block:
 *     u32 CRC-32 of the payload and what follows
 *     u32 magic 0x474e4952 ("RING"), combined with the identity of the image (by exclusive or)   u32 id   u32 event
 * Events, that is, appending and labelling, are numbered from 1; a sample's id is the event that appended it. A part
 * that is not intact counts as missing, as does a label of another sample. An intact part of another image is an
 * error: the storage then holds parts of two images.
 *
 * A commit records the number of events. Until the next one, only samples that were labelled by then are drawn: a
 * training that resumes from the commit draws the same ones. If POET_RING is 0, there is no ring.
 */
#ifndef POET_RING_H
#define POET_RING_H

#include "plan.h"

#include "storage.h"

#include <stdint.h>

struct poet_ring_counts {
    uint32_t samples;
    uint32_t labelled;   /* of these samples, those with a label */
    uint32_t drawn;      /* of the labelled, those that may be drawn */
    uint32_t unlabelled; /* oldest sample without a label, or 0 */
    uint32_t damaged;    /* places with a part that was written but is not intact */
};

/* Size of all places in blocks. */
uint32_t poet_ring_blocks(void);

/* Initialises the places, without samples. Statuses as for poet_storage_wipe. */
int poet_ring_wipe(uint32_t first_block);

/* Reads all places to find the samples. POET_ERROR_MIXED: a sample belongs to another image. Else statuses of the
 * storage. */
int poet_ring_open(uint32_t first_block);

/* Number of events; and notification that a commit with a number of events was made or loaded. */
uint32_t poet_ring_events(void);
void poet_ring_commit(uint32_t events);

/* Checks places where appending or labelling failed, since the storage may hold the data. Called before anything that
 * depends on the places as the next start would find them: counting, drawing and committing. Returns statuses of the
 * storage. */
int poet_ring_settle(void);

/* Writes a sample to the next place; `y` is its target, or NULL. POET_ERROR_RING: with `keep`, the sample in this
 * place may still be drawn. POET_ERROR_LOST: the storage does not keep the data. */
int poet_ring_append(const void *x, const void *y, int keep, uint32_t *id);

/* Adds a sample's target. POET_ERROR_ID: there is no such sample, or it already has one. */
int poet_ring_label(uint32_t id, const void *y);

struct poet_ring_counts poet_ring_count(void);

/* Place of the `index`th damaged sample in order of places; it must exist. */
uint32_t poet_ring_damaged(uint32_t index);

/* Read the wanted window of features or target of the sample of draw number `draw`; there must be samples to draw. The
 * data is dropped if `ram` is NULL. POET_ERROR_DATA: it is damaged. */
int poet_ring_draw_x(uint32_t draw, uint32_t seed, const struct poet_window *wanted, void *ram);
int poet_ring_draw_y(uint32_t draw, uint32_t seed, const struct poet_window *wanted, void *ram);

/* Place of the sample of draw number `draw`, and the event of its label. */
uint32_t poet_ring_drawn(uint32_t draw, uint32_t seed, uint32_t *event);

/* After an error in reading the sample of draw number `draw`: checks what the next start would find there. */
int poet_ring_look_again(uint32_t draw, uint32_t seed);

#endif
