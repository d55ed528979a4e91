/* SPDX-License-Identifier: Apache-2.0 */
/* Commits: the persistent tensors and how many steps are done, in storage as one, whenever the power goes.
 *
 * A set has a slot for each persistent tensor, behind them one block, the record, and ends at a multiple of
 * 4 KiB, which flash erases at once. Little endian:
 *     0  char magic[8] = "POETSAVE"      8  u32 identity of the image  12  u32 sequence
 *    16  u32 steps that are done        20  u32 blocks written since the host wrote the image
 *    24  u32 CRC-32 of the trailers of the set's slots, which have those of the payloads
 *    28  u32 events in the ring (ring.h), 0 without one
 *    32  u32 0                          36  u32 CRC-32 of bytes 0..31     the rest is zero
 *
 * A whole record of another image is none of an earlier training: then the storage holds parts of two images.
 * The commit that counts is that of the highest sequence that is whole. Another set is written and read back before
 * its record is, so until then nothing has changed. The firmware writes the sets in turn.
 */
#ifndef POET_COMMITS_H
#define POET_COMMITS_H

#include "image.h"

#include <stdint.h>

/* Blocks of a set. */
uint32_t poet_set_blocks(void);

/* Makes so many sets, the first of which begins there, ones that hold no commit. Statuses as poet_storage_wipe's. */
int poet_sets_wipe(uint32_t first_block, uint32_t sets);

/* Loads the tensors of the last commit that is whole; then image->commit says which it is.
 * POET_ERROR_MIXED: one is of another image. POET_ERROR_COMMIT: none is there. Else how reading the last one ended. */
int poet_load(struct poet_image *image);

/* In place of poet_load, for tensors that come from elsewhere: they are in no commit, and the next goes where the last
 * whole one is not. */
int poet_begin_anew(struct poet_image *image);

/* Commits the tensors as they are after so many steps, unless that has been done.
 * POET_ERROR_DIVERGED: one has a number that is not finite; nothing is written.
 * POET_ERROR_LOST, _SLOT, _CRC: the storage does not keep them. After any error the last commit still counts,
 * or this one does. */
int poet_save(struct poet_image *image, uint32_t step);

/* Looks what a save that failed, or an append or a label, has left in the storage, and goes by that as the next start would.
 * Comes before a step and a commit; without a ring there is nothing that it would change. Statuses of the storage. */
int poet_settle(struct poet_image *image);

/* Blocks that the firmware has written since the host wrote the image, over all starts: what wears the storage. Those
 * between the last commit and a cut, or opening the storage again, are not known. */
uint32_t poet_blocks_written(const struct poet_image *image);

#endif
