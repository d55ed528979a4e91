/* SPDX-License-Identifier: Apache-2.0 */
/* Stored tensors: activations and gradients that are in storage and not in RAM, and of which ops load and store parts;
 * and tables, of which ops look up rows.
 *
 * An image [channels][rows][elements of a row] is divided into tiles of the same size, each some channels of some rows.
 * Each tile has blocks of its own: a slot (slots.h) outside the sets, of the training step that wrote it. Tiles follow
 * each other by rows, and for the same rows by channels. A row of a table is a channel; tables are of generation 0. */
#ifndef POET_STORED_H
#define POET_STORED_H

#include <stdint.h>

struct poet_stored {
    uint32_t first_block; /* from the first block of the slots outside sets */
    uint32_t channels;
    uint32_t rows;
    uint32_t row_bytes;
    uint32_t tile_channels; /* divides channels */
    uint32_t tile_rows;     /* divides the rows */
    uint32_t is_constant;
};

/* Loads `channels` channels of `rows` rows, from `channel` and `row` on, as [channels][rows][elements of a row].
 * `staging` has room for the blocks of a tile. Statuses as for poet_page_in. */
int poet_stored_get(uint32_t stored, uint32_t channel, uint32_t channels, uint32_t row, uint32_t rows, void *to, void *staging);

/* Stores whole tiles, likewise. */
int poet_stored_put(uint32_t stored, uint32_t channel, uint32_t channels, uint32_t row, uint32_t rows, const void *from, void *staging);

/* Loads rows of a table by their numbers, one after the other. For a number beyond the table they are zeros, and row 0 is
 * read: what is transferred does not depend on the numbers. */
int poet_stored_rows(uint32_t stored, const int32_t *ids, uint32_t count, float *to, void *staging);

/* First block of a tensor in the storage, and how many it has. */
uint32_t poet_stored_block(uint32_t stored);
uint32_t poet_stored_blocks(uint32_t stored);

#endif
