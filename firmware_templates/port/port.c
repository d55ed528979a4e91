/* SPDX-License-Identifier: Apache-2.0 */
/* The storage of an application of its own, in place of a board's driver: each transfer is done when the call
 * that begins it returns. */
#include "poetfw.h"

#include "hal.h"
#include "poet.h"

#include <stddef.h>

static const struct poetfw_storage *storage;

void poetfw_use_storage(const struct poetfw_storage *given)
{
    storage = given;
}

int poet_hal_storage_open(void)
{
    return storage != NULL ? POET_OK : POET_ERROR_NO_STORAGE;
}

int poet_hal_storage_blocks(uint32_t *blocks)
{
    return storage->blocks(storage->argument, blocks);
}

int poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count)
{
    return storage->read(storage->argument, block, ram, count);
}

int poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count)
{
    return storage->write(storage->argument, block, ram, count);
}

int poet_hal_storage_flush(void)
{
    return storage->flush != NULL ? storage->flush(storage->argument) : POET_OK;
}

int poet_hal_storage_wait(void)
{
    return POET_OK;
}
