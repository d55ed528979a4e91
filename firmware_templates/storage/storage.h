/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of the storage, whatever is in them. */
#ifndef POET_STORAGE_H
#define POET_STORAGE_H

#include "plan.h"

#include <stdint.h>

/* Blocks moved since the start. */
struct poet_traffic {
    uint32_t read_blocks;
    uint32_t written_blocks;
};

/* Makes the storage ready for transfers, unless it is. */
int poet_storage_start(void);

/* The page buffer, of a block. Called, so that its address is in a register: of the bytes there, most have offsets that fit into
 * short instructions. */
__attribute__((const)) uint8_t *poet_storage_page(void);

/* Writes zeros to a block that is not blank, and looks whether they are there. Uses the page buffer. POET_ERROR_LOST: they are not. */
int poet_storage_wipe(uint32_t block);

/* Whether bytes are as if nothing had ever been written there: all 0x00, or all 0xff. */
int poet_storage_is_blank(const uint8_t *bytes, uint32_t count);

/* The identity of the image that was opened last, which whoever opens it says. */
void poet_storage_identify(uint32_t of_image);
uint32_t poet_storage_identity(void);

/* Whether the storage answers at all: reads its first block. Comes after a read that failed, and uses the page buffer. */
int poet_storage_answers(void);

/* Moves `count` whole blocks and waits. */
int poet_storage_read_blocks(uint32_t block, void *ram, uint32_t count);
int poet_storage_write_blocks(uint32_t block, const void *ram, uint32_t count);

/* Starts to move `count` whole blocks; until poet_storage_wait, which waits for all transfers, `ram` may not be
 * changed, and not be read if it is read into. */
int poet_storage_read_begin(uint32_t block, void *ram, uint32_t count);
int poet_storage_write_begin(uint32_t block, const void *ram, uint32_t count);
int poet_storage_wait(void);

/* Sees to it that what was written stays, before anything that is written later. */
int poet_storage_flush(void);

/* Where the plan defines POET_TRANSFERS, so many may be under way; one more waits for the first. Transfers are
 * counted as they begin: how many have, and waiting for so many. Once one has failed, all waiting
 * says so, up to the next that is for all. */
uint32_t poet_storage_begun(void);
int poet_storage_wait_for(uint32_t transfers);

/* A part of a sample's record: where it begins, how long it is, and where its CRC-32 is. */
struct poet_part {
    uint32_t offset;
    uint32_t bytes;
    uint32_t crc_offset;
};

/* Bytes of a part that are wanted: so many from one on. */
struct poet_window {
    uint32_t first;
    uint32_t bytes;
};

/* Reads what is wanted of a part of the record that begins at `block`, and what the CRC of the part is combined with (by exclusive
 * or). Where all is wanted, parts of blocks go through the page buffer, whole ones straight to `ram`; else, and where that is NULL,
 * all goes through the page buffer. `*held` is the block that the page buffer holds, 0 for none of the image's. */
int poet_storage_read(uint32_t block, const struct poet_part *part, const struct poet_window *wanted, void *ram, uint32_t *held,
                      uint32_t *mark);

/* Copies what is wanted of `count` bytes, which are those from `at` on of a part; nothing where `ram` is NULL. */
void poet_storage_keep(void *ram, const struct poet_window *wanted, const uint8_t *bytes, uint32_t at, uint32_t count);

struct poet_traffic poet_storage_traffic(void);

#endif
