/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"

#include "bytes.h"
#include "hal.h"
#include "poet.h"

#define ALIGNMENT 8u /* blocks: a sector of flash */
#define TABLE_OFFSET 446u
#define TABLE_ENTRIES 4u
#define ENTRY_BYTES 16u
#define TYPE_OFFSET 4u
#define TYPE_DATA 0xdau

static int is_blank(const uint8_t *block)
{
    for (uint32_t i = 0u; i < POET_BLOCK_BYTES; i++) {
        if (block[i] != block[0]) {
            return 0;
        }
    }
    return block[0] == 0x00u || block[0] == 0xffu; /* new, or erased flash */
}

/* Whether a partition table has the one partition of a storage image, in its first entry. */
static int is_ours(const uint8_t *block)
{
    const uint8_t *const table = block + TABLE_OFFSET;
    int others = 0;
    for (uint32_t i = 1u; i < TABLE_ENTRIES; i++) {
        others |= table[i * ENTRY_BYTES + TYPE_OFFSET];
    }
    return block[510] == 0x55u && block[511] == 0xaau && table[TYPE_OFFSET] == TYPE_DATA && others == 0;
}

int poet_scratch_open(uint32_t *first)
{
    const uint8_t *const block = poet_arena + POET_PAGE_BUFFER;
    const uint8_t *const entry = block + TABLE_OFFSET;
    uint32_t blocks;
    uint64_t end = ALIGNMENT;
    POET_TRY(poet_storage_start());
    POET_TRY(poet_hal_storage_blocks(&blocks));
    POET_TRY(poet_storage_read_blocks(0u, poet_arena + POET_PAGE_BUFFER, 1u));
    if (is_ours(block)) {
        end = (uint64_t)poet_get_u32(entry + 8) + poet_get_u32(entry + 12);
    } else if (!is_blank(block)) {
        return POET_ERROR_FOREIGN;
    }
    end = (end + ALIGNMENT - 1u) / ALIGNMENT * ALIGNMENT;
    if (end + POET_SCRATCH_BLOCKS > blocks) {
        return POET_ERROR_PARTITION_SIZE;
    }
    *first = (uint32_t)end;
    return POET_OK;
}
