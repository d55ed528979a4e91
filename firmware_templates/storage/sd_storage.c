/* SPDX-License-Identifier: Apache-2.0 */
/* Block storage on the SD card. */
#include "for_size.h"

#include "hal.h"
#include "poet.h"
#include "sd.h"

_Static_assert(POET_BLOCK_BYTES == POET_SD_BLOCK_BYTES, "the plan's blocks are the card's");

int poet_hal_storage_open(void)
{
    return poet_sd_open();
}

int poet_hal_storage_blocks(uint32_t *blocks)
{
    return poet_sd_blocks(blocks);
}

int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    return poet_sd_read_begin(block, ram, count);
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    return poet_sd_write_begin(block, ram, count);
}

int poet_hal_storage_wait(void)
{
    return poet_sd_wait();
}

int poet_hal_storage_flush(void)
{
    return POET_OK; /* a write ends when the card has programmed the data and reported success */
}
