/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "storage.h"

#include "bytes.h"
#include "commits.h"
#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_memory.h"
#include "ring.h"
#include "superblock.h"

#define CRC_BYTES 4u

struct partition {
    uint32_t first_block;
    uint32_t blocks;
};

static struct poet_traffic traffic;
static uint32_t identity;

__attribute__((weak)) void poet_hal_storage_forget(uint32_t block, uint32_t count)
{
    (void)block;
    (void)count;
}

__attribute__((weak)) uint32_t poet_hal_storage_erases(void)
{
    return 0u;
}

/* Called, so that its address is in a register: of the bytes there, most have offsets that fit into short instructions. */
static POET_CALLED uint8_t *page_buffer(void)
{
    return poet_arena + POET_PAGE_BUFFER;
}

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

int poet_storage_start(void)
{
    static int started;
    if (!started) {
        POET_TRY(poet_hal_storage_open());
        started = 1;
    }
    return POET_OK;
}

int poet_storage_answers(void)
{
    return poet_storage_read_blocks(0u, page_buffer(), 1u);
}

int poet_storage_wipe(uint32_t block)
{
    uint8_t *const page = page_buffer();
    POET_TRY(poet_storage_read_blocks(block, page, 1u));
    if (poet_storage_is_blank(page, POET_BLOCK_BYTES)) {
        return POET_OK;
    }
    memset(page, 0, POET_BLOCK_BYTES);
    POET_TRY(poet_storage_write_blocks(block, page, 1u));
    memset(page, 0xa5, POET_BLOCK_BYTES);
    POET_TRY(poet_storage_read_blocks(block, page, 1u));
    return poet_storage_is_blank(page, POET_BLOCK_BYTES) ? POET_OK : POET_ERROR_LOST;
}

int poet_storage_is_blank(const uint8_t *bytes, uint32_t count)
{
    const uint8_t first = bytes[0];
    for (uint32_t i = 1u; i < count; i++) {
        if (bytes[i] != first) {
            return 0;
        }
    }
    return first == 0x00u || first == 0xffu;
}

uint32_t poet_storage_identity(void)
{
    return identity;
}

int poet_storage_open(struct poet_image *image)
{
    uint8_t *const block = page_buffer();
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
    const uint32_t image_identity = poet_get_u32(block + 76);
    image->commit.written = 0u - traffic.written_blocks; /* none that we know of */
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
    identity = image_identity;
    poet_data_open();
    return open_ring(image, partition.first_block + blocks);
}

#ifdef POET_TRANSFERS
static struct {
    uint32_t begun;
    uint32_t ended;
    int status; /* of the first that failed */
} transfers;

uint32_t poet_storage_begun(void)
{
    return transfers.begun;
}

int poet_storage_wait_for(uint32_t count)
{
    while ((int32_t)(count - transfers.ended) > 0) {
        const int status = poet_hal_storage_wait();
        transfers.ended++;
        if (transfers.status == POET_OK) {
            transfers.status = status;
        }
    }
    return transfers.status;
}

static int make_room(void)
{
    return poet_storage_wait_for(transfers.begun + 1u - POET_TRANSFERS);
}

static void count_one(void)
{
    transfers.begun++;
}

int poet_storage_wait(void)
{
    const int status = poet_storage_wait_for(transfers.begun);
    transfers.status = POET_OK;
    return status;
}
#else
static int make_room(void)
{
    return POET_OK;
}

static void count_one(void)
{
}

int poet_storage_wait(void)
{
    return poet_hal_storage_wait();
}
#endif

int poet_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    POET_TRY(make_room());
    POET_TRY(poet_hal_storage_read_begin(block, ram, count));
    count_one();
    traffic.read_blocks += count;
    return POET_OK;
}

int poet_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    POET_TRY(make_room());
    POET_TRY(poet_hal_storage_write_begin(block, ram, count));
    count_one();
    traffic.written_blocks += count;
    return POET_OK;
}

int poet_storage_read_blocks(uint32_t block, void *ram, uint32_t count)
{
    POET_TRY(poet_storage_read_begin(block, ram, count));
    return poet_storage_wait();
}

int poet_storage_write_blocks(uint32_t block, const void *ram, uint32_t count)
{
    POET_TRY(poet_storage_write_begin(block, ram, count));
    return poet_storage_wait();
}

int poet_storage_flush(void)
{
    return poet_hal_storage_flush();
}

/* Reads from a byte on; *held is the block that the page buffer holds. */
static int read_part(uint32_t block, uint32_t offset, void *ram, uint32_t bytes, uint32_t *held)
{
    uint8_t *const page = page_buffer();
    uint8_t *target = ram;
    block += offset / POET_BLOCK_BYTES;
    offset %= POET_BLOCK_BYTES;
    while (bytes > 0u) {
        uint32_t part;
        if (offset == 0u && bytes >= POET_BLOCK_BYTES) {
            const uint32_t count = bytes / POET_BLOCK_BYTES;
            POET_TRY(poet_storage_read_blocks(block, target, count));
            block += count;
            part = count * POET_BLOCK_BYTES;
        } else {
            part = POET_BLOCK_BYTES - offset;
            if (part > bytes) {
                part = bytes;
            }
            if (*held != block) {
                POET_TRY(poet_storage_read_blocks(block, page, 1u));
                *held = block;
            }
            memcpy(target, page + offset, part);
            block++;
            offset = 0u;
        }
        target += part;
        bytes -= part;
    }
    return POET_OK;
}

void poet_storage_keep(void *ram, const struct poet_window *wanted, const uint8_t *bytes, uint32_t at, uint32_t count)
{
    const uint32_t wanted_end = wanted->first + wanted->bytes;
    const uint32_t begin = at > wanted->first ? at : wanted->first;
    const uint32_t end = at + count < wanted_end ? at + count : wanted_end;
    if (ram != NULL && begin < end) {
        memcpy((uint8_t *)ram + (begin - wanted->first), bytes + (begin - at), end - begin);
    }
}

/* The CRC of a part, of which only what is wanted is kept. */
static int crc_of_part(uint32_t block, const struct poet_part *of, const struct poet_window *wanted, void *ram, uint32_t *held,
                       uint32_t *crc)
{
    uint8_t *const page = page_buffer();
    uint32_t offset = of->offset % POET_BLOCK_BYTES;
    block += of->offset / POET_BLOCK_BYTES;
    *crc = 0u;
    for (uint32_t at = 0u; at < of->bytes; block++) {
        const uint32_t rest = POET_BLOCK_BYTES - offset;
        const uint32_t part = rest < of->bytes - at ? rest : of->bytes - at;
        if (*held != block) {
            POET_TRY(poet_storage_read_blocks(block, page, 1u));
            *held = block;
        }
        *crc = poet_crc32(*crc, page + offset, part);
        poet_storage_keep(ram, wanted, page + offset, at, part);
        at += part;
        offset = 0u;
    }
    return POET_OK;
}

int poet_storage_read(uint32_t block, const struct poet_part *part, const struct poet_window *wanted, void *ram, uint32_t *held,
                      uint32_t *mark)
{
    uint8_t stored[CRC_BYTES];
    uint32_t crc;
    if (ram == NULL || wanted->bytes != part->bytes) {
        POET_TRY(crc_of_part(block, part, wanted, ram, held, &crc));
    } else {
        POET_TRY(read_part(block, part->offset, ram, part->bytes, held));
        crc = poet_crc32(0u, ram, part->bytes);
    }
    POET_TRY(read_part(block, part->crc_offset, stored, CRC_BYTES, held));
    *mark = poet_get_u32(stored) ^ crc;
    return POET_OK;
}

struct poet_traffic poet_storage_traffic(void)
{
    return traffic;
}
