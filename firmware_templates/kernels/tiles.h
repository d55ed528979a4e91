/* SPDX-License-Identifier: Apache-2.0 */
/* Generated kernels of a Cortex-M4F: inner blocks in assembly, and the constants and loops around them. All numbers come from
 * the host; here, there are only sums of addresses.
 *
 * Steps and places are in bytes. */
#ifndef POET_TILES_H
#define POET_TILES_H

#include <stddef.h>
#include <stdint.h>

#include "update.h"
#include "vfp.h"

/* Rows that meet the same rows of the kernel. */
struct poet_tile_run {
    int32_t source_at;
    int32_t weight_at;
    int32_t result_at;
    int32_t rows;
    int32_t source_next;
    int32_t weight_next;
    uint32_t flags; /* rows of the kernel that are not met, and V (bit 28) where there are some */
};

/* A loop around a block, which goes by `advance` units and at last by `last`: blocks may overlap. Innermost first. */
struct poet_tile_loop {
    int32_t count;
    int32_t advance;
    int32_t last;
    int32_t source;
    int32_t weight;
    int32_t result;
    int32_t bias;
};

/* Constants of a block whose results are neighbours in a row. */
struct poet_stencil {
    int32_t row_step;
    int32_t strips;
    int32_t channels;
    int32_t weight_other;
    int32_t result_other;
    int32_t source_strip;
    int32_t result_strip;
    int32_t source_last;
    int32_t result_last;
    int32_t source_row;
    int32_t result_row;
};

/* Constants of a block whose results are sums along rows. */
struct poet_dots {
    int32_t samples;
    int32_t groups;
    int32_t source_other;
    int32_t weight_other;
    int32_t source_row;
    int32_t put_source;
    int32_t put_weight;
    int32_t last_groups;
};

/* What a sink takes of each call: rows of adjacent results. It stands behind an entry's loops, and counts elements. */
struct poet_tile_put {
    int32_t rows;
    int32_t elements;
    int32_t step;  /* from a row to the next */
    int32_t first; /* of the first call */
    int32_t unused[3];
};

/* A block is called by poet_tiles_sum_f32 alone, which keeps all registers for it. */
typedef void poet_tile(void);

/* Results that nothing meets: zeros, or the bias. */
poet_tile poet_tile_empty;

struct poet_tiles {
    poet_tile *block;
    const struct poet_tile_run *runs;
    const struct poet_tile_loop *loops;
    uint16_t run_count;
    uint8_t loop_count; /* and POET_TILE_PUTS where a sink takes the results */
    uint8_t more;       /* 1 where another entry of the table follows */
    union {
        struct poet_stencil stencil;
        struct poet_dots dots;
    } of;
};

enum { POET_TILE_LOOPS = 4, POET_TILE_PUTS = 0x80 };

/* Forward: source x, result y. dX: source dy, result dx, no bias. dW: source x, weight dy, result dw. Products of matrices:
 * source b, weight a. */
void poet_tiles_sum_f32(const struct poet_tiles *tiles, const float *source, const float *weight,
                        const float *bias, float *result);

/* The same for a table whose sums a sink takes, each once. */
void poet_tiles_apply_f32(const struct poet_tiles *tiles, const float *source, const float *weight,
                          const struct poet_gradient_sink *sink);

#endif
