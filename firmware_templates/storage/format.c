/* SPDX-License-Identifier: Apache-2.0 */
/* Writes an image on the device itself. The superblock comes last: after a power cut the storage has no image. */
#include "for_size.h"

#include "image.h"

#include "bytes.h"
#include "commits.h"
#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_memory.h"
#include "ring.h"
#include "superblock.h"

#define PARTITION_BLOCK 8u /* as on the host */
#define ALIGNMENT 8u       /* of slots and sets: 4 KiB, the erase unit of flash */

/* Parts of an image, in blocks from the partition's first block. */
struct layout {
    uint32_t slots;
    uint32_t sets;
    uint32_t ring;
    uint32_t end;
};

static uint32_t aligned(uint32_t block)
{
    return (block + ALIGNMENT - 1u) / ALIGNMENT * ALIGNMENT;
}

static uint32_t ring_blocks(void)
{
#if POET_RING > 0
    return poet_ring_blocks();
#else
    return 0u;
#endif
}

static int lay_out(uint32_t sets, struct layout *layout)
{
    uint32_t blocks;
    POET_TRY(poet_hal_storage_blocks(&blocks));
    layout->slots = layout->sets = ALIGNMENT;
    for (uint32_t i = POET_PERSISTENTS; i < POET_SLOTS; i++) {
        const uint32_t end = layout->slots + poet_slots[i].first_block + poet_slot_blocks(poet_slots[i].bytes);
        layout->sets = end > layout->sets ? end : layout->sets;
    }
    layout->sets = aligned(layout->sets);
    const uint64_t ring = layout->sets + (uint64_t)sets * poet_set_blocks();
    const uint64_t end = ring + ring_blocks();
    if (sets < 2u) {
        return POET_ERROR_ARGUMENT;
    }
    if (end + PARTITION_BLOCK > blocks) {
        return POET_ERROR_PARTITION_END;
    }
    layout->ring = (uint32_t)ring;
    layout->end = (uint32_t)end;
    return POET_OK;
}

/* True if the first block is our partition table, an empty one, or none: a power cut may have left anything. */
static int is_free(const uint8_t *block)
{
    const uint8_t *entry;
    return poet_storage_find_entry(block, &entry) == POET_OK || !poet_storage_has_table(block) ||
           poet_storage_is_blank(block, POET_SIGNATURE_OFFSET);
}

static void pack_table(const struct layout *layout, uint8_t *block)
{
    static const uint8_t beyond_cylinders[] = {0xfe, 0xff, 0xff};
    uint8_t *const entry = block + POET_TABLE_OFFSET;
    memset(block, 0, POET_BLOCK_BYTES);
    memcpy(entry + 1, beyond_cylinders, sizeof beyond_cylinders);
    entry[POET_ENTRY_TYPE] = POET_TYPE_DATA;
    memcpy(entry + POET_ENTRY_TYPE + 1, beyond_cylinders, sizeof beyond_cylinders);
    poet_put_u32(entry + POET_ENTRY_FIRST_BLOCK, PARTITION_BLOCK);
    poet_put_u32(entry + POET_ENTRY_BLOCKS, layout->end);
    block[POET_SIGNATURE_OFFSET] = 0x55u;
    block[POET_SIGNATURE_OFFSET + 1u] = 0xaau;
}

/* The identity is the CRC of all preceding fields. */
static void pack_superblock(const struct layout *layout, uint32_t seed, uint32_t sets, uint8_t *block)
{
    const uint32_t numbers[] = {
        POET_IMAGE_VERSION, POET_PLAN_ID,       POET_BLOCK_BYTES, layout->end, 0u, 0u, seed,
        1u,                 0u,                 POET_RECORD_BLOCKS, /* no training samples */
        1u,                 0u,                 POET_RECORD_BLOCKS, /* and no held-out ones */
        layout->slots,      layout->sets,       sets,             0u,
    };
    uint32_t at = POET_HEADER_OFFSET;
    memset(block, 0, POET_BLOCK_BYTES);
    memcpy(block, POET_IMAGE_MAGIC, POET_HEADER_OFFSET);
    for (uint32_t i = 0u; i < sizeof numbers / sizeof numbers[0]; i++, at += 4u) {
        poet_put_u32(block + at, numbers[i]);
    }
    poet_put_u32(block + at, poet_crc32(0u, block, at));
    poet_put_u32(block + POET_HEADER_CRC_OFFSET, poet_crc32(0u, block, POET_HEADER_BYTES));
}

static int write_and_flush(uint32_t block, const uint8_t *page)
{
    POET_TRY(poet_storage_write_blocks(block, page, 1u));
    return poet_storage_flush();
}

/* Wipes areas in which an older image's commits and samples could be read as this one's. */
static int wipe(const struct layout *layout, uint32_t sets)
{
    POET_TRY(poet_sets_wipe(PARTITION_BLOCK + layout->sets, sets));
#if POET_RING > 0
    POET_TRY(poet_ring_wipe(PARTITION_BLOCK + layout->ring));
#endif
    return poet_storage_flush();
}

int poet_storage_format(uint32_t seed, uint32_t sets)
{
    uint8_t *const page = poet_storage_page();
    struct layout layout;
    POET_TRY(poet_storage_start());
    POET_TRY(lay_out(sets, &layout));
    POET_TRY(poet_storage_read_blocks(0u, page, 1u));
    if (!is_free(page)) {
        return POET_ERROR_FOREIGN;
    }
    memset(page, 0, POET_BLOCK_BYTES);
    POET_TRY(write_and_flush(PARTITION_BLOCK, page));
    pack_table(&layout, page);
    POET_TRY(write_and_flush(0u, page));
    POET_TRY(wipe(&layout, sets));
    pack_superblock(&layout, seed, sets, page);
    return write_and_flush(PARTITION_BLOCK, page);
}
