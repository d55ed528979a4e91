/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "kept.h"

#include "bytes.h"
#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_memory.h"

#if POET_KEPT_BYTES > 0

#if POET_KEPT_RECORDS > 0

/* `seen` is the version of the sample plus 1; 0 if the record is not valid. */
static struct {
    uint32_t seen;
    uint8_t features[POET_KEPT_BYTES];
    uint8_t target[POET_Y_BYTES];
} records[POET_KEPT_RECORDS];

void poet_kept_open(uint32_t first_block)
{
    (void)first_block;
    for (uint32_t i = 0u; i < POET_KEPT_RECORDS; i++) {
        records[i].seen = 0u;
    }
}

int poet_kept_read(const struct poet_kept_record *record, void *features, void *target)
{
    if (record->number >= POET_KEPT_RECORDS || records[record->number].seen != record->version + 1u) {
        return POET_ERROR_DATA;
    }
    memcpy(features, records[record->number].features, POET_KEPT_BYTES);
    memcpy(target, records[record->number].target, POET_Y_BYTES);
    return POET_OK;
}

int poet_kept_write(const struct poet_kept_record *record, const void *features, const void *target)
{
    if (record->number >= POET_KEPT_RECORDS) {
        return POET_ERROR_DATA;
    }
    memcpy(records[record->number].features, features, POET_KEPT_BYTES);
    memcpy(records[record->number].target, target, POET_Y_BYTES);
    records[record->number].seen = record->version + 1u;
    return POET_OK;
}

#else

#define PAYLOAD_BYTES (POET_KEPT_BYTES + POET_Y_BYTES)
#define CRC_BYTES 4u
#define VERSION_STEP 0x9e3779b1u /* odd, so that no two versions of a record have the same mark */

/* Parts of a record, before the CRC. All sizes are multiples of the CRC's, which so lies within a block. */
static const struct poet_window FEATURES = {0u, POET_KEPT_BYTES};
static const struct poet_window TARGET = {POET_KEPT_BYTES, POET_Y_BYTES};

static uint32_t first;

static uint32_t block_of(const struct poet_kept_record *record)
{
    return first + record->number * POET_KEPT_BLOCKS;
}

static uint32_t mark_of(const struct poet_kept_record *record)
{
    return poet_storage_identity() + record->number + record->version * VERSION_STEP;
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

int poet_kept_read(const struct poet_kept_record *record, void *features, void *target)
{
    uint8_t *const page = poet_storage_page();
    uint32_t block = block_of(record);
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
    return (stored ^ crc) == mark_of(record) ? POET_OK : POET_ERROR_DATA;
}

int poet_kept_write(const struct poet_kept_record *record, const void *features, const void *target)
{
    uint8_t *const page = poet_storage_page();
    uint32_t block = block_of(record);
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
            poet_put_u32(page + count, crc ^ mark_of(record));
        }
        POET_TRY(poet_storage_write_blocks(block++, page, 1u));
    }
    return POET_OK;
}

#endif

#endif
