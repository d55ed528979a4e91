/* SPDX-License-Identifier: Apache-2.0 */
#include "panel.h"

#include <stddef.h>

#include "parts.h"
#include "product.h"

#if POET_HAS_VECTORS

enum {
    ROWS = 4,
    SUMS = 4096 /* maximum number at a time */
};

/* Extents of a panel. */
struct depth {
    const int32_t *places;
    int32_t units;
    int32_t taps;
    bool one_sum; /* continues across panels */
};

typedef void block_kernel(const struct depth *depth, const float *const rows[4],
                          const float (*panel)[POET_LANES], float *totals, int32_t next);

#define POET_BYTES 16
#define POET_BLOCK sum_block_16
#define POET_TARGET
#include "panel_block.h"
#undef POET_BYTES
#undef POET_BLOCK
#undef POET_TARGET

#ifdef __x86_64__
#define POET_BYTES 32
#define POET_BLOCK sum_block_32
#define POET_TARGET __attribute__((target("avx2")))
#include "panel_block.h"
#undef POET_BYTES
#undef POET_BLOCK
#undef POET_TARGET

/* The widest vectors of this computer. */
static block_kernel *block_of_core(void)
{
    return __builtin_cpu_supports("avx2") ? sum_block_32 : sum_block_16;
}
#else
static block_kernel *block_of_core(void)
{
    return sum_block_16;
}
#endif

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Tile that is summed at a time: some rows, and the lanes of adjacent panels. */
struct tile {
    _Alignas(64) float panels[POET_DEPTH][POET_LANES];
    _Alignas(64) float sums[SUMS];
    int32_t places[POET_DEPTH];
};

/* Adds the products of the next `count` k for some rows and a panel's lanes. */
static void sum_rows(const struct poet_panel *op, const struct depth *depth, int32_t row, int32_t rows,
                     const float (*panel)[POET_LANES], float *sums, int32_t next)
{
    block_kernel *const block = block_of_core();
    for (int32_t i = 0; i < rows; i += ROWS) {
        const float *factors[ROWS];
        for (int32_t j = 0; j < ROWS; j++) {
            factors[j] = op->factors + (ptrdiff_t)(row + least(i + j, rows - 1)) * op->row_next;
        }
        block(depth, factors, panel, sums + i * next, next);
    }
}

/* Number of lanes that are summed at a time: those of one panel or, if all k fit, of several. */
static int32_t lanes_of_tile(const struct poet_panel *op)
{
    const int32_t depth = op->units * op->taps;
    const int32_t room = depth > 0 ? least(POET_DEPTH / depth, SUMS / ROWS / POET_LANES) : 1;
    const int32_t needed = (op->lanes + POET_LANES - 1) / POET_LANES;
    return POET_LANES * (room > 1 ? least(room, needed) : 1);
}

/* The rows from `first` up to `end`, of a tile's lanes. A panel has whole units, or of one that is longer a part: then
 * that unit's sums are apart, behind the totals, until it is complete. */
static void sum_lanes(const struct poet_panel *op, int32_t lane, int32_t first, int32_t end,
                      struct tile *tile)
{
    const bool is_one_sum = op->taps == 1 || (op->units == 1 && op->begin == NULL);
    const bool in_parts = !is_one_sum && op->taps > POET_DEPTH;
    const bool one_sum = is_one_sum || in_parts;
    const int32_t depth = op->units * op->taps;
    const bool fits = depth <= POET_DEPTH;
    const int32_t step = one_sum || depth == 0 ? POET_DEPTH : POET_DEPTH / op->taps * op->taps;
    const int32_t next = lanes_of_tile(op);
    const int32_t lanes = least(op->lanes - lane, next);
    const int32_t group = (in_parts ? SUMS / 2 : SUMS) / next / ROWS * ROWS;
    float *const sums = tile->sums + (in_parts ? SUMS / 2 : 0);
    const poet_floats zeros = {0.0f};
    int32_t some = 0;
    for (int32_t row = first; row < end; row += group) {
        const int32_t rows = least(end - row, group);
        for (int32_t i = 0; i < (in_parts ? SUMS : (rows + ROWS - 1) / ROWS * ROWS * next); i += 4) {
            poet_store(tile->sums + i, zeros);
        }
        if (op->begin != NULL) {
            op->begin(op->op, row, rows, lane, lanes, tile->sums, next);
        }
        for (int32_t k = 0; k < depth; k += some) {
            const int32_t left = in_parts ? op->taps - k % op->taps : depth - k;
            some = least(left, step);
            const struct depth part = {tile->places, one_sum ? 1 : some / op->taps,
                                       one_sum ? some : op->taps, one_sum};
            for (int32_t i = 0; i < lanes; i += POET_LANES) {
                float (*const panel)[POET_LANES] = tile->panels + i / POET_LANES * depth;
                if (row == first || !fits) {
                    op->pack(op->op, lane + i, least(lanes - i, POET_LANES), k, some, tile->places,
                             panel);
                }
                sum_rows(op, &part, row, rows, (const float (*)[POET_LANES])panel, sums + i, next);
            }
            for (int32_t i = 0; in_parts && some == left && i < rows * next; i++) {
                tile->sums[i] += sums[i];
                sums[i] = 0.0f;
            }
        }
        for (int32_t i = 0; POET_FUSED && one_sum && !in_parts && i < rows * next; i += 4) {
            poet_store(tile->sums + i, zeros + poet_load(tile->sums + i)); /* so that no total is -0 */
        }
        op->put(op->op, row, rows, lane, lanes, tile->sums, next);
    }
}

/* A part of the tiles or, if there are few, of the rows of all tiles. */
static void sum_part(void *context, int32_t index)
{
    const struct poet_panel *op = context;
    const int32_t parts = poet_parts();
    const int32_t next = lanes_of_tile(op);
    const int32_t tiles = (op->lanes + next - 1) / next;
    const int32_t blocks = (op->rows + ROWS - 1) / ROWS;
    const bool by_tiles = tiles >= 4 * parts || tiles >= blocks;
    const int32_t of = by_tiles ? tiles : blocks;
    const int32_t first = of * index / parts;
    const int32_t end = of * (index + 1) / parts;
    struct tile tile;
    for (int32_t i = by_tiles ? first : 0; i < (by_tiles ? end : tiles); i++) {
        sum_lanes(op, i * next, by_tiles ? 0 : first * ROWS,
                  by_tiles ? op->rows : least(end * ROWS, op->rows), &tile);
    }
}

void poet_panel_sum_f32(const struct poet_panel *op)
{
    struct poet_panel shared = *op;
    poet_run_parts(sum_part, &shared);
}

void poet_panel_pack_matrix(const void *matrix, int32_t lane, int32_t lanes, int32_t k,
                            int32_t count, int32_t *places, float (*panel)[POET_LANES])
{
    const struct poet_panel_matrix *of = matrix;
    for (int32_t i = 0; i < count; i++) {
        const bool is_there = k + i < of->depth;
        const float *from = of->numbers + (is_there ? (k + i) * of->k_next + lane * of->lane_next : 0);
        const int32_t met = is_there ? lanes : 0;
        int32_t j = 0;
        places[i] = is_there ? (k + i) * of->factor_next : 0;
        for (; of->lane_next == 1 && j + 4 <= met; j += 4) {
            poet_store(&panel[i][j], poet_load(from + j));
        }
        for (; j < met; j++) {
            panel[i][j] = from[j * of->lane_next];
        }
        for (; j < POET_LANES; j++) {
            panel[i][j] = 0.0f;
        }
    }
}

__attribute__((weak)) int32_t poet_parts(void)
{
    return 1;
}

__attribute__((weak)) void poet_run_parts(void (*part)(void *context, int32_t index), void *context)
{
    part(context, 0);
}

#endif
