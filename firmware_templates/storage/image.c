/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "image.h"

#include "bytes.h"
#include "commits.h"
#include "crc32.h"
#include "hal.h"
#include "kept.h"
#include "poet.h"
#include "poet_memory.h"
#include "ring.h"
#include "superblock.h"

struct partition {
    uint32_t first_block;
    uint32_t blocks;
};

static void get_samples(const uint8_t *bytes, struct poet_samples *samples)
{
    samples->first_block = poet_get_u32(bytes);
    samples->count = poet_get_u32(bytes + 4);
    samples->record_blocks = poet_get_u32(bytes + 8);
}

static int samples_fit(const struct poet_samples *samples, uint32_t blocks)
{
    if (samples->count == 0u) {
        return 1;
    }
    return samples->record_blocks == POET_RECORD_BLOCKS &&
           samples->first_block + (uint64_t)samples->count * samples->record_blocks <= blocks;
}

static int slots_fit(const struct poet_image *image, uint32_t blocks)
{
    if (image->sets < 2u ||
        image->sets_first_block + (uint64_t)image->sets * poet_set_blocks() > blocks) {
        return 0;
    }
    for (uint32_t i = POET_PERSISTENTS; i < POET_SLOTS; i++) {
        const uint64_t end = (uint64_t)image->slots_first_block + poet_slots[i].first_block +
                             poet_slot_blocks(poet_slots[i].bytes);
        if (end > blocks) {
            return 0;
        }
    }
    return 1;
}

/* The ring, behind the last set. */
static int open_ring(const struct poet_image *image, uint32_t end)
{
#if POET_RING > 0
    const uint32_t first = image->sets_first_block + image->sets * poet_set_blocks();
    return poet_ring_blocks() <= end - first ? poet_ring_open(first) : POET_ERROR_IMAGE;
#else
    (void)image;
    (void)end;
    return POET_OK;
#endif
}

/* Kept features, between the held-out samples and the slots. */
static int open_kept(const struct poet_image *image, uint32_t start)
{
#if POET_KEPT_BYTES > 0
    const struct poet_samples *const before = &image->evaluation;
    const uint32_t blocks = before->first_block + before->count * before->record_blocks - start;
    const uint32_t first = start + (blocks + POET_KEPT_ALIGNMENT - 1u) / POET_KEPT_ALIGNMENT * POET_KEPT_ALIGNMENT;
    poet_kept_open(first);
    uint64_t records = image->training.count;
#if POET_RING > 0
    records += POET_RING;
#endif
#if POET_KEPT_RECORDS > 0
    return records <= POET_KEPT_RECORDS ? POET_OK : POET_ERROR_IMAGE;
#else
    return first + records * POET_KEPT_BLOCKS <= image->slots_first_block ? POET_OK : POET_ERROR_IMAGE;
#endif
#else
    (void)image;
    (void)start;
    return POET_OK;
#endif
}

int poet_storage_has_table(const uint8_t *block)
{
    return block[POET_SIGNATURE_OFFSET] == 0x55u && block[POET_SIGNATURE_OFFSET + 1u] == 0xaau;
}

int poet_storage_find_entry(const uint8_t *table, const uint8_t **found)
{
    *found = NULL;
    if (!poet_storage_has_table(table)) {
        return POET_ERROR_NO_PARTITION;
    }
    for (uint32_t i = 0u; i < POET_TABLE_ENTRIES; i++) {
        const uint8_t *const entry = table + POET_TABLE_OFFSET + i * POET_ENTRY_BYTES;
        if (entry[POET_ENTRY_TYPE] == POET_TYPE_UNUSED) {
            continue;
        }
        if (entry[POET_ENTRY_TYPE] != POET_TYPE_DATA || *found != NULL) {
            return POET_ERROR_FOREIGN;
        }
        *found = entry;
    }
    return *found != NULL ? POET_OK : POET_ERROR_NO_PARTITION;
}

static int find_partition(const uint8_t *table, struct partition *partition)
{
    const uint8_t *found;
    POET_TRY(poet_storage_find_entry(table, &found));
    partition->first_block = poet_get_u32(found + POET_ENTRY_FIRST_BLOCK);
    partition->blocks = poet_get_u32(found + POET_ENTRY_BLOCKS);
    uint32_t end;
    POET_TRY(poet_hal_storage_blocks(&end));
    if (partition->first_block == 0u || partition->first_block >= end) {
        return POET_ERROR_PARTITION_START;
    }
    return partition->blocks <= end - partition->first_block ? POET_OK : POET_ERROR_PARTITION_END;
}

int poet_storage_open(struct poet_image *image)
{
    uint8_t *const block = poet_storage_page();
    struct partition partition;
    POET_TRY(poet_storage_start());
    POET_TRY(poet_storage_read_blocks(0u, block, 1u));
    POET_TRY(find_partition(block, &partition));
    POET_TRY(poet_storage_read_blocks(partition.first_block, block, 1u));
    if (memcmp(block, POET_IMAGE_MAGIC, 8u) != 0) {
        return POET_ERROR_IMAGE;
    }
    if (poet_get_u32(block + 8) != POET_IMAGE_VERSION) {
        return POET_ERROR_VERSION;
    }
    if (poet_get_u32(block + POET_HEADER_CRC_OFFSET) != poet_crc32(0u, block, POET_HEADER_BYTES) ||
        poet_get_u32(block + 16) != POET_BLOCK_BYTES) {
        return POET_ERROR_IMAGE;
    }
    if (poet_get_u32(block + 12) != POET_PLAN_ID) {
        return POET_ERROR_PLAN;
    }
    image->flags = poet_get_u32(block + 24);
    image->steps = poet_get_u32(block + 28);
    image->seed = poet_get_u32(block + 32);
    get_samples(block + 36, &image->training);
    get_samples(block + 48, &image->evaluation);
    image->slots_first_block = poet_get_u32(block + 60);
    image->sets_first_block = poet_get_u32(block + 64);
    image->sets = poet_get_u32(block + 68);
    image->checkpoint_every = poet_get_u32(block + 72);
    const uint32_t identity = poet_get_u32(block + 76);
    image->commit.written = 0u - poet_storage_traffic().written_blocks; /* none that we know of */
    const uint32_t blocks = poet_get_u32(block + 20);
    if (blocks > partition.blocks) {
        return POET_ERROR_PARTITION_SIZE;
    }
    if ((image->training.count != 0u && image->training.count < POET_BATCH) || image->evaluation.count % POET_BATCH != 0u ||
        !samples_fit(&image->training, blocks) || !samples_fit(&image->evaluation, blocks) ||
        !slots_fit(image, blocks)) {
        return POET_ERROR_IMAGE;
    }
    image->training.first_block += partition.first_block;
    image->evaluation.first_block += partition.first_block;
    image->slots_first_block += partition.first_block;
    image->sets_first_block += partition.first_block;
    poet_storage_identify(identity);
    poet_data_open();
    POET_TRY(open_kept(image, partition.first_block));
    return open_ring(image, partition.first_block + blocks);
}
