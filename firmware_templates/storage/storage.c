/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "storage.h"

#include "bytes.h"
#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_memory.h"

#define CRC_BYTES 4u

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

uint8_t *poet_storage_page(void)
{
    return poet_arena + POET_PAGE_BUFFER;
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
    return poet_storage_read_blocks(0u, poet_storage_page(), 1u);
}

int poet_storage_wipe(uint32_t block)
{
    uint8_t *const page = poet_storage_page();
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

void poet_storage_identify(uint32_t of_image)
{
    identity = of_image;
}

uint32_t poet_storage_identity(void)
{
    return identity;
}

#ifdef POET_TRANSFERS
static struct {
    uint32_t ended;
    int status; /* first error */
} transfers;

uint32_t poet_storage_begun(void)
{
    return traffic.requests;
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
    return poet_storage_wait_for(traffic.requests + 1u - POET_TRANSFERS);
}

int poet_storage_wait(void)
{
    const int status = poet_storage_wait_for(traffic.requests);
    transfers.status = POET_OK;
    return status;
}
#else
static int make_room(void)
{
    return POET_OK;
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
    traffic.requests++;
    traffic.read_blocks += count;
    return POET_OK;
}

int poet_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    POET_TRY(make_room());
    POET_TRY(poet_hal_storage_write_begin(block, ram, count));
    traffic.requests++;
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

/* Reads from a byte offset on; *held is the block in the page buffer. */
static int read_part(uint32_t block, uint32_t offset, void *ram, uint32_t bytes, uint32_t *held)
{
    uint8_t *const page = poet_storage_page();
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

/* CRC of a whole part; only the wanted window of its bytes is kept. */
static int crc_of_part(uint32_t block, const struct poet_part *of, const struct poet_window *wanted, void *ram, uint32_t *held,
                       uint32_t *crc)
{
    uint8_t *const page = poet_storage_page();
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
