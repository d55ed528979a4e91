/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the storage's blocks, independent of their content. */
#ifndef POET_STORAGE_H
#define POET_STORAGE_H

#include "plan.h"

#include <stdint.h>

/* Requests to the storage since the start, each for neighbouring blocks, and blocks transferred. */
struct poet_traffic {
    uint32_t requests;
    uint32_t read_blocks;
    uint32_t written_blocks;
};

/* Initialises the storage, unless that has been done. */
int poet_storage_start(void);

/* Page buffer, the size of a block. A function, so that its address is in a register: most offsets then fit short
 * instructions. */
__attribute__((const)) uint8_t *poet_storage_page(void);

/* Writes zeros to a block that is not blank, and verifies them, through the page buffer. POET_ERROR_LOST: the zeros
 * are not there. */
int poet_storage_wipe(uint32_t block);

/* True if bytes are as in unwritten storage: all 0x00, or all 0xff. */
int poet_storage_is_blank(const uint8_t *bytes, uint32_t count);

/* Identity of the image opened last, which its opener sets. */
void poet_storage_identify(uint32_t of_image);
uint32_t poet_storage_identity(void);

/* Checks that the storage responds, by reading its first block into the page buffer; used after a failed read. */
int poet_storage_answers(void);

/* Transfers `count` whole blocks and waits. */
int poet_storage_read_blocks(uint32_t block, void *ram, uint32_t count);
int poet_storage_write_blocks(uint32_t block, const void *ram, uint32_t count);

/* Starts a transfer of `count` whole blocks. Until poet_storage_wait, which waits for all transfers, `ram` must not
 * be written, nor read if it is the target. */
int poet_storage_read_begin(uint32_t block, void *ram, uint32_t count);
int poet_storage_write_begin(uint32_t block, const void *ram, uint32_t count);
int poet_storage_wait(void);

/* Makes all written data durable, before anything that is written later. */
int poet_storage_flush(void);

/* If the plan defines POET_TRANSFERS, as many may be under way; another one waits for the first. Transfers are
 * counted when they start: the count so far, and waiting until a count has ended. After an error, all waits return
 * it, up to the next wait for all transfers. */
uint32_t poet_storage_begun(void);
int poet_storage_wait_for(uint32_t transfers);

/* A part of a sample's record: its offset, its size, and the offset of its CRC-32. */
struct poet_part {
    uint32_t offset;
    uint32_t bytes;
    uint32_t crc_offset;
};

/* Window of a part: the bytes of it that are wanted. */
struct poet_window {
    uint32_t first;
    uint32_t bytes;
};

/* Reads the wanted window of a part of the record that begins at `block`, and the value that the part's CRC is xored
 * with. If the whole part is wanted, partial blocks go through the page buffer, whole ones directly to `ram`; otherwise,
 * or if `ram` is NULL, all blocks go through the page buffer. `*held` is the block in the page buffer, 0 for none of the
 * image's. */
int poet_storage_read(uint32_t block, const struct poet_part *part, const struct poet_window *wanted, void *ram, uint32_t *held,
                      uint32_t *mark);

/* Copies the wanted ones of `count` bytes at offset `at` of a part to `ram`; nothing if `ram` is NULL. */
void poet_storage_keep(void *ram, const struct poet_window *wanted, const uint8_t *bytes, uint32_t at, uint32_t count);

struct poet_traffic poet_storage_traffic(void);

#endif
