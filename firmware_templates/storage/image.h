/* SPDX-License-Identifier: Apache-2.0 */
/* The storage image: numbered blocks, whose layout is in block 0. It lies in a partition of type 0xda,
 * "non-file-system data", the only one in the master boot record (MBR) in the storage's first block. Blocks are
 * counted from the partition's first.
 *
 * Little endian. Block 0, the superblock, is written only by the host or by format.c:
 *     0  char magic[8] = "POETIMG1"      8  u32 version = 3           12  u32 plan id
 *    16  u32 block bytes                20  u32 blocks in all         24  u32 flags
 *    28  u32 steps                      32  u32 seed
 *    36  u32 training: first block      40  u32 samples               44  u32 blocks per record
 *    48  u32 evaluation: first block    52  u32 samples               56  u32 blocks per record
 *    60  u32 slots: first block         64  u32 sets: first block    68  u32 sets, 2 or more
 *    72  u32 steps between checkpoints  76  u32 identity              80  u32 0
 *    84  u32 CRC-32 of bytes 0..79
 * The identity stands for plan, seed, samples and initial weights. Samples, commits and the ring include it, so that
 * parts of two images are told apart. The rest is zero. (If the CRC directly followed the bytes that it covers, the CRC
 * of the whole block, by which a host compares, would be the same for all superblocks.)
 */
#ifndef POET_IMAGE_H
#define POET_IMAGE_H

#include "data.h"
#include "plan.h"

#include <stdint.h>

/* Size of a sample's record in blocks: features, target, and a CRC-32 of each. */
#define POET_RECORD_BLOCKS ((POET_X_BYTES + POET_Y_BYTES + 8u + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES)

enum poet_image_flags {
    POET_IMAGE_CAPTURE = 1,  /* write gradients to their slots in the last step */
    POET_IMAGE_EVALUATE = 2, /* evaluate after training */
};

/* The last commit: the state of the training that survives a power cut. */
struct poet_commit {
    uint32_t set;      /* which holds it */
    uint32_t sequence; /* of commits, 0 for the host's */
    uint32_t step;     /* training steps that are done */
    uint32_t written;  /* see poet_blocks_written; excludes this run's blocks */
    uint32_t crc;      /* of its trailers */
#if POET_RING > 0
    uint32_t ring;     /* events in the ring before it */
#endif
};

/* Content of the superblock, with blocks counted from the storage's first; and, once loaded, the last commit. */
struct poet_image {
    uint32_t flags;
    uint32_t steps;
    uint32_t seed;
    struct poet_samples training;
    struct poet_samples evaluation;
    uint32_t slots_first_block;
    uint32_t sets_first_block;
    uint32_t sets;
    uint32_t checkpoint_every; /* in steps; 0: only at the training's end */
    struct poet_commit commit;
};

/* Initialises the storage, finds the partition and reads the superblock, through the page buffer.
 * POET_ERROR_NO_PARTITION, _FOREIGN, _PARTITION_START, _PARTITION_END, _PARTITION_SIZE: see status.h.
 * POET_ERROR_IMAGE: it is damaged, or describes data that cannot be trained on or does not fit. POET_ERROR_VERSION:
 * it has another layout. POET_ERROR_PLAN: it was made for another plan. */
int poet_storage_open(struct poet_image *image);

/* Formats the storage with an image that has no samples and no commit, and a ring if the plan has one. `seed`
 * determines the samples' order and the image's identity; `sets` is the number of sets. POET_ERROR_ARGUMENT: fewer
 * than 2 sets. POET_ERROR_PARTITION_END: the storage is too small. POET_ERROR_FOREIGN: its first block is a foreign
 * partition table or boot sector; nothing is written then. POET_ERROR_LOST: it does not keep written data. After any
 * other error it holds no image, or the previous one. */
int poet_storage_format(uint32_t seed, uint32_t sets);

/* True if a first block is a partition table or a boot sector. */
int poet_storage_has_table(const uint8_t *block);

/* Entry of the only partition in a table. POET_ERROR_NO_PARTITION: it has none. POET_ERROR_FOREIGN: it has
 * others. */
int poet_storage_find_entry(const uint8_t *table, const uint8_t **found);

#endif
