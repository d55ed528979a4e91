/* SPDX-License-Identifier: Apache-2.0 */
/* A file in place of a card: where a board reads and writes its blocks, these functions call its driver. */
#ifndef FILE_CARD_H
#define FILE_CARD_H

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#define TO_DISK(file) fsync(fileno(file))
#elif defined(_WIN32)
#include <io.h>
#define TO_DISK(file) _commit(_fileno(file))
#else
#error "how does this system have a file's bytes written to its disk?"
#endif
#include <stdio.h>

#include "poetfw.h"

#define BLOCK_BYTES 512
#define CARD_FAILS (-200) /* a status of ours */

static int card_blocks(void *card, uint32_t *blocks)
{
    if (fseek((FILE *)card, 0, SEEK_END) != 0) {
        return CARD_FAILS;
    }
    *blocks = (uint32_t)(ftell((FILE *)card) / BLOCK_BYTES);
    return POETFW_OK;
}

static int card_read(void *card, uint32_t block, void *ram, uint32_t count)
{
    return fseek((FILE *)card, (long)block * BLOCK_BYTES, SEEK_SET) == 0 &&
                   fread(ram, BLOCK_BYTES, count, (FILE *)card) == count
               ? POETFW_OK
               : CARD_FAILS;
}

static int card_write(void *card, uint32_t block, const void *ram, uint32_t count)
{
    return fseek((FILE *)card, (long)block * BLOCK_BYTES, SEEK_SET) == 0 &&
                   fwrite(ram, BLOCK_BYTES, count, (FILE *)card) == count
               ? POETFW_OK
               : CARD_FAILS;
}

/* What is written must be on the disk: the system's cache is lost when the power goes. */
static int card_flush(void *card)
{
    return fflush((FILE *)card) == 0 && TO_DISK((FILE *)card) == 0 ? POETFW_OK : CARD_FAILS;
}

/* Makes a file with a storage image of poetfw's the library's storage. */
static int use_file(const char *name)
{
    static struct poetfw_storage storage = {NULL, card_blocks, card_read, card_write, card_flush};
    storage.argument = fopen(name, "r+b");
    if (storage.argument == NULL) {
        return CARD_FAILS;
    }
    poetfw_use_storage(&storage);
    return POETFW_OK;
}

#endif
