/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "kept.h"

#include "bytes.h"
#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_memory.h"

#if POET_KEPT_BYTES > 0

#define PAYLOAD_BYTES (POET_KEPT_BYTES + POET_Y_BYTES)
#define CRC_BYTES 4u

/* Parts of a record, before the CRC. All sizes are multiples of the CRC's, which so lies within a block. */
static const struct poet_window FEATURES = {0u, POET_KEPT_BYTES};
static const struct poet_window TARGET = {POET_KEPT_BYTES, POET_Y_BYTES};

static uint32_t first;

static uint32_t block_of(uint32_t sample)
{
    return first + sample * POET_KEPT_BLOCKS;
}

static uint32_t mark_of(uint32_t sample)
{
    return poet_storage_identity() + sample;
}

/* Bytes of the payload in the block that begins at byte `at` of a record. */
static uint32_t payload_in(uint32_t at)
{
    return PAYLOAD_BYTES - at < POET_BLOCK_BYTES ? PAYLOAD_BYTES - at : POET_BLOCK_BYTES;
}

/* Copies the bytes of a part that lie in a block's window to its page. */
static void put(uint8_t *page, const struct poet_window *here, const uint8_t *part, const struct poet_window *place)
{
    const uint32_t end = place->first + place->bytes;
    const uint32_t here_end = here->first + here->bytes;
    const uint32_t from = place->first > here->first ? place->first : here->first;
    const uint32_t to = end < here_end ? end : here_end;
    if (from < to) {
        memcpy(page + (from - here->first), part + (from - place->first), to - from);
    }
}

void poet_kept_open(uint32_t first_block)
{
    first = first_block;
}

int poet_kept_read(uint32_t sample, void *features, void *target)
{
    uint8_t *const page = poet_storage_page();
    uint32_t block = block_of(sample);
    uint32_t crc = 0u;
    uint32_t stored = 0u;
    for (uint32_t at = 0u; at < PAYLOAD_BYTES + CRC_BYTES; at += POET_BLOCK_BYTES) {
        const uint32_t count = payload_in(at);
        POET_TRY(poet_storage_read_blocks(block++, page, 1u));
        crc = poet_crc32(crc, page, count);
        poet_storage_keep(features, &FEATURES, page, at, count);
        poet_storage_keep(target, &TARGET, page, at, count);
        if (count < POET_BLOCK_BYTES) {
            stored = poet_get_u32(page + count);
        }
    }
    return (stored ^ crc) == mark_of(sample) ? POET_OK : POET_ERROR_DATA;
}

int poet_kept_write(uint32_t sample, const void *features, const void *target)
{
    uint8_t *const page = poet_storage_page();
    uint32_t block = block_of(sample);
    uint32_t crc = 0u;
    poet_hal_storage_forget(block, POET_KEPT_BLOCKS);
    for (uint32_t at = 0u; at < PAYLOAD_BYTES + CRC_BYTES; at += POET_BLOCK_BYTES) {
        const uint32_t count = payload_in(at);
        const struct poet_window here = {at, count};
        memset(page, 0, POET_BLOCK_BYTES);
        put(page, &here, features, &FEATURES);
        put(page, &here, target, &TARGET);
        crc = poet_crc32(crc, page, count);
        if (count < POET_BLOCK_BYTES) {
            poet_put_u32(page + count, crc ^ mark_of(sample));
        }
        POET_TRY(poet_storage_write_blocks(block++, page, 1u));
    }
    return POET_OK;
}

#endif
