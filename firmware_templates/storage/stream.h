/* SPDX-License-Identifier: Apache-2.0 */
/* Streamed tensors: trained weights, and their optimizer state, that stay in storage and are loaded tile by tile.
 *
 * A weight [outputs][inputs][positions] is divided into `rows` along its outputs and `columns` along its inputs. Each
 * tile is a slot (slots.h) of its own, in the order [column][row], in every set (commits.h) behind the other tensors.
 *
 * The set that the next commit will use is the working copy. Tensors are read from the last commit's set until the
 * first step after it ends, then from the working copy; updates go to the working copy. Every step writes all tiles of
 * all streamed tensors, and a tile's generation is the step that wrote it: so each tile that a step reads must be of the
 * step before. */
#ifndef POET_STREAM_H
#define POET_STREAM_H

#include <stdint.h>

struct poet_stream {
    uint32_t first_block; /* from the first block of its set */
    uint32_t rows;
    uint32_t columns;
    uint32_t run_bytes;  /* of a tile: inputs and positions for one output */
    uint32_t tile_bytes; /* a multiple of run_bytes */
};

/* Loads a row of tiles as [outputs of a tile][inputs][positions]. `to` has room for the row and, from a multiple of 8
 * bytes on, for the blocks of a tile. Statuses as for poet_page_in. */
int poet_stream_row(uint32_t stream, uint32_t row, void *to);

/* Loads a column of tiles as [outputs][inputs of a tile][positions]. Behind `to` a tile's padding and trailer, less
 * than a block and a trailer, is overwritten. */
int poet_stream_column(uint32_t stream, uint32_t column, void *to);

/* Stores a column of tiles for the next step. Overwrites the same bytes behind `from`, and within it. */
int poet_stream_put(uint32_t stream, uint32_t column, void *from);

/* Gathers `count` runs of `bytes`, `stride` bytes apart, one behind the other. */
void poet_stream_gather(void *to, const void *from, uint32_t count, uint32_t stride, uint32_t bytes);

/* Begins to read from the set of a commit after `step` steps, and to write to the next set. */
void poet_streams_open(uint32_t set_first_block, uint32_t next_set_first_block, uint32_t step);

/* Ends a training step: what it has written is read from now on. */
void poet_streams_end_step(void);

/* Verifies all tiles of the set opened with poet_slots_open_set, of the step begun with poet_slots_begin_step, and
 * continues a CRC over their trailers. With `finite`, POET_ERROR_DIVERGED if a number is not. */
int poet_streams_verify(int finite, uint32_t *crc);

/* Makes the working copy whole if no step has been trained since the last commit. */
int poet_streams_settle(void);

/* First block of a tensor in the storage, as it is between two ops of a training step. */
uint32_t poet_stream_block(uint32_t stream);
uint32_t poet_stream_blocks(uint32_t stream);

#endif
