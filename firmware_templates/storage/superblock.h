/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets in the partition table and in the superblock (layout: image.h), for readers and writers. */
#ifndef POET_SUPERBLOCK_H
#define POET_SUPERBLOCK_H

#define POET_IMAGE_MAGIC "POETIMG1"
#define POET_IMAGE_VERSION 3u
#define POET_HEADER_OFFSET 8u    /* of its numbers */
#define POET_HEADER_BYTES 80u    /* covered by the CRC */
#define POET_HEADER_CRC_OFFSET 84u

#define POET_TABLE_OFFSET 446u
#define POET_TABLE_ENTRIES 4u
#define POET_ENTRY_BYTES 16u
#define POET_ENTRY_TYPE 4u /* offsets in an entry */
#define POET_ENTRY_FIRST_BLOCK 8u
#define POET_ENTRY_BLOCKS 12u
#define POET_TYPE_UNUSED 0x00u
#define POET_TYPE_DATA 0xdau
#define POET_SIGNATURE_OFFSET 510u

#endif
