/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "kept.h"

#include "bytes.h"
#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_memory.h"

#if POET_KEPT_BYTES > 0

#define CRC_BYTES 4u

static uint32_t first;

static uint32_t block_of(uint32_t sample)
{
    return first + sample * POET_KEPT_BLOCKS;
}

void poet_kept_open(uint32_t first_block)
{
    first = first_block;
}

int poet_kept_read(uint32_t sample, void *features)
{
    static const struct poet_part part = {0u, POET_KEPT_BYTES, POET_KEPT_BYTES};
    static const struct poet_window whole = {0u, POET_KEPT_BYTES};
    uint32_t held = 0u;
    uint32_t mark;
    POET_TRY(poet_storage_read(block_of(sample), &part, &whole, features, &held, &mark));
    return mark == poet_storage_identity() + sample ? POET_OK : POET_ERROR_DATA;
}

int poet_kept_write(uint32_t sample, const void *features)
{
    const uint8_t *const source = features;
    uint8_t *const page = poet_storage_page();
    const uint32_t crc = poet_crc32(0u, source, POET_KEPT_BYTES) ^ (poet_storage_identity() + sample);
    uint32_t block = block_of(sample);
    poet_hal_storage_forget(block, POET_KEPT_BLOCKS);
    for (uint32_t at = 0u; at < POET_KEPT_BYTES + CRC_BYTES; at += POET_BLOCK_BYTES) {
        const uint32_t left = POET_KEPT_BYTES - at; /* a multiple of the CRC's size, 0 in a block of only that */
        memset(page, 0, POET_BLOCK_BYTES);
        memcpy(page, source + at, left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES);
        if (left < POET_BLOCK_BYTES) {
            poet_put_u32(page + left, crc);
        }
        POET_TRY(poet_storage_write_blocks(block++, page, 1u));
    }
    return POET_OK;
}

#endif
