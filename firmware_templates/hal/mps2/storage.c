/* SPDX-License-Identifier: Apache-2.0 */
/* Block storage in the file storage.img of the emulator's working folder, by semihosting. */
#include "for_size.h"

#include "hal.h"
#include "poet.h"
#include "semihosting.h"

#define MODE_READ_WRITE_BINARY 3u /* fopen's "r+b" */
#define CLOSED (-1)

static const char FILE_NAME[] = "storage.img";

static int32_t file = CLOSED;

int poet_hal_storage_open(void)
{
    const uint32_t arguments[3] = {(uint32_t)FILE_NAME, MODE_READ_WRITE_BINARY,
                                   sizeof FILE_NAME - 1u};
    file = poet_semihosting(POET_SYS_OPEN, arguments);
    return file == CLOSED ? POET_ERROR_STORAGE : POET_OK;
}

int poet_hal_storage_blocks(uint32_t *blocks)
{
    const uint32_t arguments[1] = {(uint32_t)file};
    const int32_t bytes = poet_semihosting(POET_SYS_FLEN, arguments);
    if (bytes < 0) {
        return POET_ERROR_STORAGE;
    }
    *blocks = (uint32_t)bytes / POET_BLOCK_BYTES;
    return POET_OK;
}

/* Both services return the number of bytes not transferred. */
static int transfer(enum poet_semihosting service, uint32_t block, uint32_t ram, uint32_t count)
{
    /* The service takes a 32-bit byte offset, whose sign bit is not usable. */
    const uint32_t blocks_addressable = 0x80000000u / POET_BLOCK_BYTES;
    if (count > blocks_addressable || block > blocks_addressable - count) {
        return POET_ERROR_STORAGE;
    }
    const uint32_t seek[2] = {(uint32_t)file, block * POET_BLOCK_BYTES};
    const uint32_t move[3] = {(uint32_t)file, ram, count * POET_BLOCK_BYTES};
    if (poet_semihosting(POET_SYS_SEEK, seek) != 0 || poet_semihosting(service, move) != 0) {
        return POET_ERROR_STORAGE;
    }
    return POET_OK;
}

int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    return transfer(POET_SYS_READ, block, (uint32_t)ram, count);
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    return transfer(POET_SYS_WRITE, block, (uint32_t)ram, count);
}

int poet_hal_storage_wait(void)
{
    return POET_OK;
}

int poet_hal_storage_flush(void)
{
    return POET_OK; /* the emulator does not buffer */
}
