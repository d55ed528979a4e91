/* SPDX-License-Identifier: Apache-2.0 */
/* The storage image: numbered blocks, of which block 0 says what the others hold. It lies in a partition
 * of type 0xda, "non-file-system data", the only one in the storage's own first block, a
 * master boot record (MBR), and its blocks are counted from the partition's first.
 *
 * Little endian. Block 0, the superblock, which the firmware never writes:
 *     0  char magic[8] = "POETIMG1"      8  u32 version = 3           12  u32 plan id
 *    16  u32 block bytes                20  u32 blocks in all         24  u32 flags
 *    28  u32 steps                      32  u32 seed
 *    36  u32 training: first block      40  u32 samples               44  u32 blocks per record
 *    48  u32 evaluation: first block    52  u32 samples               56  u32 blocks per record
 *    60  u32 slots: first block         64  u32 sets: first block    68  u32 sets, 2 or more
 *    72  u32 steps between checkpoints  76  u32 identity              80  u32 0
 *    84  u32 CRC-32 of bytes 0..79
 * The identity stands for plan, seed, samples and initial weights. Samples, commits and the ring have it too, so that the
 * parts of two images are told apart. The rest is zero. Right behind what it is of, a CRC would make that of the whole block, by which a host compares, the
 * same for all of them.
 */
#ifndef POET_IMAGE_H
#define POET_IMAGE_H

#include "data.h"
#include "plan.h"

#include <stdint.h>

/* Blocks of a sample's record: features, target, and a CRC-32 of each. */
#define POET_RECORD_BLOCKS ((POET_X_BYTES + POET_Y_BYTES + 8u + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES)

enum poet_image_flags {
    POET_IMAGE_CAPTURE = 1,  /* write gradients to their slots in the last step */
    POET_IMAGE_EVALUATE = 2, /* evaluate after training */
};

/* The last commit: what of the training is in storage, whatever happens to the power. */
struct poet_commit {
    uint32_t set;      /* which holds it */
    uint32_t sequence; /* of commits, 0 for the host's */
    uint32_t step;     /* training steps that are done */
    uint32_t written;  /* see poet_blocks_written; without those since the last start */
    uint32_t crc;      /* of its trailers */
#if POET_RING > 0
    uint32_t ring;     /* events in the ring before it */
#endif
};

/* What the superblock says, with blocks counted from the storage's first; and once it is loaded, the last commit. */
struct poet_image {
    uint32_t flags;
    uint32_t steps;
    uint32_t seed;
    struct poet_samples training;
    struct poet_samples evaluation;
    uint32_t slots_first_block;
    uint32_t sets_first_block;
    uint32_t sets;
    uint32_t checkpoint_every; /* steps; 0: only at the training's end */
    struct poet_commit commit;
};

/* Starts the storage, finds the partition, and reads the superblock, through the page buffer.
 * POET_ERROR_NO_PARTITION, _FOREIGN, _PARTITION_START, _PARTITION_END, _PARTITION_SIZE: see status.h.
 * POET_ERROR_IMAGE: it is damaged, or describes data that cannot be trained on or does not fit.
 * POET_ERROR_VERSION: it is laid out in another way. POET_ERROR_PLAN: it was made for another plan. */
int poet_storage_open(struct poet_image *image);

/* Makes the storage one whose image has no samples, but a ring where the plan has one, and no commit. `seed` is that of the
 * samples' order, and of the image's identity; of sets there are so many.
 * POET_ERROR_ARGUMENT: fewer than 2 sets. POET_ERROR_PARTITION_END: the storage has not so many blocks.
 * POET_ERROR_FOREIGN: its first block is the partition table, or the boot sector, of somebody else. Nothing is written then.
 * POET_ERROR_LOST: it does not keep what is written. After any other error it holds no image, or the one before. */
int poet_storage_format(uint32_t seed, uint32_t sets);

/* Whether a first block says that it is a partition table, or what boots a computer. */
int poet_storage_has_table(const uint8_t *block);

/* The entry of the only partition in a table. POET_ERROR_NO_PARTITION: there is none. POET_ERROR_FOREIGN: there are others. */
int poet_storage_find_entry(const uint8_t *table, const uint8_t **found);

#endif
