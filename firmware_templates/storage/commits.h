/* SPDX-License-Identifier: Apache-2.0 */
/* Commits: persistent tensors and step count, stored atomically with respect to power cuts.
 *
 * A set has a slot for each persistent tensor, followed by one block, the record, and ends at a multiple of 4 KiB,
 * the erase unit of flash. Little endian:
 *     0  char magic[8] = "POETSAVE"      8  u32 identity of the image  12  u32 sequence
 *    16  u32 steps that are done        20  u32 blocks written since the host wrote the image
 *    24  u32 CRC-32 of the trailers of the set's slots, which have those of the payloads
 *    28  u32 events in the ring (ring.h), 0 without one
 *    32  u32 0                          36  u32 CRC-32 of bytes 0..31     the rest is zero
 *
 * An intact record of another image means that the storage holds parts of two images. The intact commit with the
 * highest sequence number counts. The next set is written and read back before its record is, so until then nothing
 * has changed. The firmware uses the sets in turn. Streamed tensors (stream.h) follow the slots; they are written as
 * they are trained, and only read back.
 */
#ifndef POET_COMMITS_H
#define POET_COMMITS_H

#include "image.h"

#include <stdint.h>

/* Size of a set in blocks. */
uint32_t poet_set_blocks(void);

/* Initialises a number of sets, from a first block on, without commits. Statuses as for poet_storage_wipe. */
int poet_sets_wipe(uint32_t first_block, uint32_t sets);

/* Loads the tensors of the last intact commit, which is then image->commit. POET_ERROR_MIXED: a commit belongs to
 * another image. POET_ERROR_COMMIT: no set holds a commit. Else the status of reading the last one. */
int poet_load(struct poet_image *image);

/* Replaces poet_load if tensors come from elsewhere: they are in no commit, and the next commit spares the set of the
 * last intact one. */
int poet_begin_anew(struct poet_image *image);

/* Commits the tensors after a number of steps, unless this has been done. POET_ERROR_DIVERGED: a tensor has a number
 * that is not finite; no commit is written. POET_ERROR_LOST, _SLOT, _CRC: the storage does not keep the data. After an
 * error, either the previous commit or this one counts. */
int poet_save(struct poet_image *image, uint32_t step);

/* Checks what a failed save, append or label left in the storage, and continues as the next start would. Called
 * before a step and a commit; needed only with a ring. Returns statuses of the storage. */
int poet_settle(struct poet_image *image);

/* Blocks that the firmware has written since the host wrote the image, over all starts: the wear of the storage.
 * Blocks between the last commit and a power cut or a reopening are not counted. */
uint32_t poet_blocks_written(const struct poet_image *image);

#endif
