/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: a place in storage for each tensor that is paged or captured, and one in each set for each tensor that is
 * committed (commits.h). The latter come first in the table.
 *
 * A slot is its payload, zero padding, and a trailer in the last 16 bytes of its last block:
 *     u32 magic 0x544f4c53 ("SLOT")   u32 bytes   u32 generation   u32 CRC-32 of the payload
 * The trailer is written last, so an interrupted write leaves a slot with a wrong CRC. The generation is the training
 * step (1-based) that wrote the slot, 0 for the host: data read back must have been written in the same step.
 */
#ifndef POET_SLOTS_H
#define POET_SLOTS_H

#include <stdint.h>

#define POET_SLOT_TRAILER_BYTES 16u
#define POET_SLOT_TRAILER_OFFSET (POET_BLOCK_BYTES - POET_SLOT_TRAILER_BYTES) /* in a slot's last block */

struct poet_slot {
    uint32_t first_block; /* from the first block of its set, or of the slots outside sets */
    uint32_t bytes;       /* payload */
};

/* Blocks occupied by a slot with `bytes` of payload. */
uint32_t poet_slot_blocks(uint32_t bytes);

/* First block of the slots outside sets. */
uint32_t poet_slots_first_block(void);

/* For code that transfers slots: check that there is a slot of `bytes`; its first block in the storage; write its
 * trailer into its last block; check that this trailer is of the current step and the payload's; that a trailer is of
 * a given step and the payload's. */
int poet_slot_check(uint32_t slot, uint32_t bytes);
uint32_t poet_slot_block(uint32_t slot);
void poet_slot_seal(uint8_t *page, uint32_t bytes, uint32_t crc);
int poet_slot_verify(const uint8_t *page, uint32_t bytes, uint32_t crc);
int poet_slot_verify_as_of(const uint8_t *trailer, uint32_t bytes, uint32_t crc, uint32_t generation);

/* Reads a slot without storing it; returns whether it holds the data written in this step. */
int poet_slot_read_back(uint32_t slot);

/* Sets the first block of the slots outside sets. Called once, before any page transfer. */
void poet_slots_open(uint32_t first_block);

/* Sets the first block of the set that the other slots are in from now on. */
void poet_slots_open_set(uint32_t first_block);

/* Begins training step `step` (1-based); with `capture`, gradients are written to their slots. */
void poet_slots_begin_step(uint32_t step, int capture);

/* Transfers a tensor to or from its slot. `bytes` must be the slot's size; the page buffer is used.
 * POET_ERROR_ARGUMENT: no such slot, or another size. POET_ERROR_SLOT: it has no valid trailer. POET_ERROR_LOST: it
 * was written in another step. POET_ERROR_CRC: its payload is damaged (`ram` holds it as it was read). */
int poet_page_out(uint32_t slot, const void *ram, uint32_t bytes);
int poet_page_in(uint32_t slot, void *ram, uint32_t bytes);

/* The same in parallel with computation, if the plan defines POET_TRANSFERS. Until poet_page_wait the RAM belongs to
 * the transfer: during a page-out it may be read, during a page-in neither read nor written. Transfers are completed
 * in order. Errors are returned by the next call that waits. */
int poet_page_out_begin(uint32_t slot, const void *ram, uint32_t bytes);
int poet_page_in_begin(uint32_t slot, void *ram, uint32_t bytes);
int poet_page_wait(uint32_t slot);

/* After a failed step: waits for its transfers, ignoring their status, and forgets them. */
void poet_pages_forget(void);

/* Writes a finished gradient to its slot if this step captures gradients, else does nothing. */
int poet_capture(uint32_t slot, const void *gradient, uint32_t bytes);

#endif
