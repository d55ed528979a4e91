/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: one place in storage for each tensor that is paged or captured, and one in each set for each that is
 * committed (commits.h). Those come first in the table.
 *
 * A slot is its payload, zero padding, and a trailer in the last 16 bytes of its last block:
 *     u32 magic 0x544f4c53 ("SLOT")   u32 bytes   u32 generation   u32 CRC-32 of the payload
 * The trailer is written last, so a write cut short anywhere leaves a slot whose CRC is wrong. The
 * generation is the training step (1-based) that wrote the slot, 0 where the host did: what is read back must be of
 * the step that it was written in.
 */
#ifndef POET_SLOTS_H
#define POET_SLOTS_H

#include <stdint.h>

#define POET_SLOT_TRAILER_BYTES 16u

struct poet_slot {
    uint32_t first_block; /* counted from the first block of its set, or of the slots that are in none */
    uint32_t bytes;       /* payload */
};

/* Blocks that a slot of `bytes` of payload occupies. */
uint32_t poet_slot_blocks(uint32_t bytes);

/* For those that move slots: whether there is such a slot of `bytes`, where it begins in the storage, its
 * trailer into its last block, and whether the trailer in its last block is of this step, and of that payload. */
int poet_slot_check(uint32_t slot, uint32_t bytes);
uint32_t poet_slot_block(uint32_t slot);
void poet_slot_seal(uint8_t *page, uint32_t bytes, uint32_t crc);
int poet_slot_verify(const uint8_t *page, uint32_t bytes, uint32_t crc);

/* Reads a slot, and puts it nowhere: whether it holds what was written to it in this step. */
int poet_slot_read_back(uint32_t slot);

/* Where the slots that are in no set begin. Called once, before any page moves. */
void poet_slots_open(uint32_t first_block);

/* Where the set begins that the others are in from now on. */
void poet_slots_open_set(uint32_t first_block);

/* Begins training step `step` (1-based); with `capture` its gradients are written to their slots. */
void poet_slots_begin_step(uint32_t step, int capture);

/* Moves a tensor to and from its slot. `bytes` must be the slot's; the page buffer is used.
 * POET_ERROR_ARGUMENT: no such slot, or another size. POET_ERROR_SLOT: it has no valid trailer.
 * POET_ERROR_LOST: it was written in another step. POET_ERROR_CRC: its payload is damaged (`ram` then holds it as it
 * was read). */
int poet_page_out(uint32_t slot, const void *ram, uint32_t bytes);
int poet_page_in(uint32_t slot, void *ram, uint32_t bytes);

/* The same, beside computing, where the plan defines POET_TRANSFERS. Until poet_page_wait the RAM belongs to the
 * transfer: it may be read if it goes out, and neither read nor written if it comes in. What begins
 * later is done later. Errors come from whichever call waits. */
int poet_page_out_begin(uint32_t slot, const void *ram, uint32_t bytes);
int poet_page_in_begin(uint32_t slot, void *ram, uint32_t bytes);
int poet_page_wait(uint32_t slot);

/* After a step that failed: waits for what it began, whatever comes of that, and forgets it. */
void poet_pages_forget(void);

/* Writes a finished gradient to its slot when this step captures, else does nothing. */
int poet_capture(uint32_t slot, const void *gradient, uint32_t bytes);

#endif
