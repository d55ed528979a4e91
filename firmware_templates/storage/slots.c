/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "slots.h"

#include "bytes.h"
#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_memory.h"

#define MAGIC 0x544f4c53u

static struct {
    uint32_t first_block;
    uint32_t set_first_block;
    uint32_t generation;
    int capture;
} state;

uint32_t poet_slot_blocks(uint32_t bytes)
{
    return bytes / POET_BLOCK_BYTES + 1u + (bytes % POET_BLOCK_BYTES > POET_SLOT_TRAILER_OFFSET);
}

uint32_t poet_slots_first_block(void)
{
    return state.first_block;
}

void poet_slots_open(uint32_t first_block)
{
    state.first_block = first_block;
    state.generation = 0u;
    state.capture = 0;
}

void poet_slots_open_set(uint32_t first_block)
{
    state.set_first_block = first_block;
}

void poet_slots_begin_step(uint32_t step, int capture)
{
    state.generation = step;
    state.capture = capture;
}

int poet_slot_check(uint32_t slot, uint32_t bytes)
{
    return slot < POET_SLOTS && poet_slots[slot].bytes == bytes ? POET_OK : POET_ERROR_ARGUMENT;
}

uint32_t poet_slot_block(uint32_t slot)
{
    const uint32_t first = slot < POET_PERSISTENTS ? state.set_first_block : state.first_block;
    return first + poet_slots[slot].first_block;
}

void poet_slot_seal(uint8_t *page, uint32_t bytes, uint32_t crc)
{
    uint8_t *const trailer = page + POET_SLOT_TRAILER_OFFSET;
    poet_put_u32(trailer, MAGIC);
    poet_put_u32(trailer + 4, bytes);
    poet_put_u32(trailer + 8, state.generation);
    poet_put_u32(trailer + 12, crc);
}

int poet_slot_verify(const uint8_t *page, uint32_t bytes, uint32_t crc)
{
    return poet_slot_verify_as_of(page + POET_SLOT_TRAILER_OFFSET, bytes, crc, state.generation);
}

int poet_slot_verify_as_of(const uint8_t *trailer, uint32_t bytes, uint32_t crc, uint32_t generation)
{
    if (poet_get_u32(trailer) != MAGIC || poet_get_u32(trailer + 4) != bytes) {
        return POET_ERROR_SLOT;
    }
    if (poet_get_u32(trailer + 8) != generation) {
        return POET_ERROR_LOST;
    }
    return poet_get_u32(trailer + 12) == crc ? POET_OK : POET_ERROR_CRC;
}

int poet_page_out(uint32_t slot, const void *ram, uint32_t bytes)
{
    POET_TRY(poet_slot_check(slot, bytes));
    const uint8_t *const payload = ram;
    const uint32_t whole = bytes / POET_BLOCK_BYTES;
    const uint32_t rest = bytes % POET_BLOCK_BYTES;
    uint32_t block = poet_slot_block(slot);
    uint32_t crc;
    poet_hal_storage_forget(block, poet_slot_blocks(bytes));
    if (whole > 0u) {
        POET_TRY(poet_storage_write_begin(block, payload, whole));
        crc = poet_crc32(0u, payload, bytes);
        POET_TRY(poet_storage_wait());
    } else {
        crc = poet_crc32(0u, payload, bytes);
    }
    block += whole;

    uint8_t *const page = poet_storage_page();
    memset(page, 0, POET_BLOCK_BYTES);
    memcpy(page, payload + whole * POET_BLOCK_BYTES, rest);
    if (rest > POET_SLOT_TRAILER_OFFSET) {
        POET_TRY(poet_storage_write_blocks(block, page, 1u));
        memset(page, 0, POET_BLOCK_BYTES);
        block++;
    }
    poet_slot_seal(page, bytes, crc);
    return poet_storage_write_blocks(block, page, 1u);
}

int poet_page_in(uint32_t slot, void *ram, uint32_t bytes)
{
    POET_TRY(poet_slot_check(slot, bytes));
    uint8_t *const payload = ram;
    const uint32_t whole = bytes / POET_BLOCK_BYTES;
    const uint32_t rest = bytes % POET_BLOCK_BYTES;
    uint32_t block = poet_slot_block(slot);
    if (whole > 0u) {
        POET_TRY(poet_storage_read_blocks(block, payload, whole));
    }
    block += whole;

    uint8_t *const page = poet_storage_page();
    POET_TRY(poet_storage_read_blocks(block, page, 1u));
    memcpy(payload + whole * POET_BLOCK_BYTES, page, rest);
    if (rest > POET_SLOT_TRAILER_OFFSET) {
        POET_TRY(poet_storage_read_blocks(block + 1u, page, 1u));
    }
    return poet_slot_verify(page, bytes, poet_crc32(0u, payload, bytes));
}

int poet_slot_read_back(uint32_t slot)
{
    uint8_t *const page = poet_storage_page();
    const uint32_t bytes = poet_slots[slot].bytes;
    uint32_t left = bytes;
    uint32_t crc = 0u;
    for (uint32_t i = 0u; i < poet_slot_blocks(bytes); i++) {
        const uint32_t part = left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES;
        POET_TRY(poet_storage_read_blocks(poet_slot_block(slot) + i, page, 1u));
        crc = poet_crc32(crc, page, part);
        left -= part;
    }
    return poet_slot_verify(page, bytes, crc);
}

int poet_capture(uint32_t slot, const void *gradient, uint32_t bytes)
{
    return state.capture ? poet_page_out(slot, gradient, bytes) : POET_OK;
}
