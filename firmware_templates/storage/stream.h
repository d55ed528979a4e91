/* SPDX-License-Identifier: Apache-2.0 */
/* Streamed tensors: weights, and their optimizer state, that stay in storage and are loaded tile by tile.
 *
 * A weight [outputs][inputs][positions] is divided into `rows` along its outputs and `columns` along its inputs. A
 * column begins with a block: its tiles follow each other, and one request transfers them. Columns are in every set
 * (commits.h) behind the slots. A tensor has one trailer (slots.h), at the end of its last block, with a CRC-32 over the
 * CRC-32s of the columns: so it can be verified by columns and by rows. All of a tensor's columns are read, or its rows,
 * from the first one to the last, which is verified with all others.
 *
 * The set that the next commit will use is the working copy. Tensors are read from the last commit's set until the
 * first step after it ends, then from the working copy; updates go to the working copy. Every step writes all tiles of
 * all streamed tensors, and a tensor's generation is the step that wrote it: so what a step reads must be of the step
 * before.
 *
 * Constants, which are frozen weights, are laid out likewise, once and outside the sets, with generation 0. */
#ifndef POET_STREAM_H
#define POET_STREAM_H

#include <stdint.h>

struct poet_stream {
    uint32_t first_block; /* from the first block of its set, or of the slots outside sets */
    uint32_t rows;
    uint32_t columns;
    uint32_t run_bytes;  /* of a tile: inputs and positions for one output */
    uint32_t tile_bytes; /* a multiple of run_bytes */
    uint32_t is_constant;
};

/* Loads a row of tiles as [outputs of a tile][inputs][positions]. `to` has room for the blocks that a tile lies in; if
 * there are several columns, for the row, a CRC of each column, and these blocks, each from a multiple of 8 bytes on.
 * The CRCs stay there until the last row is loaded. Statuses as for poet_page_in. */
int poet_stream_row(uint32_t stream, uint32_t row, void *to);

/* Loads a column of tiles as [outputs][inputs of a tile][positions]. The rest of its blocks behind it is overwritten. */
int poet_stream_column(uint32_t stream, uint32_t column, void *to);

/* Loads a column of tiles likewise, and begins to load the next one to `next`, for the call that takes it. All columns
 * are loaded, one after the other, into two buffers in turn. Behind the blocks of a column, a buffer has room for 4
 * bytes. */
int poet_stream_ahead(uint32_t stream, uint32_t column, void *to, void *next);

/* Stores a column of tiles for the next step. Overwrites the rest of its blocks behind it. */
int poet_stream_put(uint32_t stream, uint32_t column, void *from);

/* Begins to store a column likewise. Until poet_storage_wait, only poet_stream_ahead may write to it. */
int poet_stream_put_begin(uint32_t stream, uint32_t column, void *from);

/* Begins to read from the set of a commit after `step` steps, and to write to the next set. */
void poet_streams_open(uint32_t set_first_block, uint32_t next_set_first_block, uint32_t step);

/* Ends a training step: what it has written is read from now on. */
void poet_streams_end_step(void);

/* Verifies that all streamed tensors of a set are of a step, and continues a CRC over their trailers. With `finite`,
 * POET_ERROR_DIVERGED if a number is not. */
int poet_streams_verify(uint32_t set_first_block, uint32_t step, int finite, uint32_t *crc);

/* Makes the working copy whole if no step has been trained since the last commit. */
int poet_streams_settle(void);

/* First block of a tensor in the storage, as it is between two ops of a training step. */
uint32_t poet_stream_block(uint32_t stream);
uint32_t poet_stream_blocks(uint32_t stream);

#endif
