/* SPDX-License-Identifier: Apache-2.0 */
#include "panel.h"

#include <stddef.h>

#if POET_HAS_VECTORS

enum {
    ROWS = 4,
    SUMS = 4096 /* most at a time */
};

/* What one panel has. */
struct depth {
    const int32_t *places;
    int32_t units;
    int32_t taps;
    bool one_sum; /* of all units' taps: it goes on from panel to panel */
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

/* The widest that this computer has. */
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

/* What is summed at a time: some rows, and the lanes of some panels side by side. */
struct tile {
    _Alignas(64) float panels[POET_DEPTH][POET_LANES];
    _Alignas(64) float sums[SUMS];
    int32_t places[POET_DEPTH];
};

/* `count` k more of some rows and a panel's lanes. */
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

/* All rows of the lanes of one panel after the other, or where all of their k fit in it, of several at once. */
static int32_t sum_lanes(const struct poet_panel *op, int32_t lane, struct tile *tile)
{
    const bool one_sum = op->units == 1;
    const int32_t depth = op->units * op->taps;
    const bool fits = depth <= POET_DEPTH;
    const int32_t step = one_sum || depth == 0 ? POET_DEPTH : POET_DEPTH / op->taps * op->taps;
    const int32_t left = (op->lanes - lane + POET_LANES - 1) / POET_LANES;
    const int32_t panels = fits ? least(depth > 0 ? POET_DEPTH / depth : 1, left) : 1;
    const int32_t lanes = least(op->lanes - lane, panels * POET_LANES);
    const int32_t next = panels * POET_LANES;
    const int32_t group = SUMS / next / ROWS * ROWS;
    for (int32_t row = 0; row < op->rows; row += group) {
        const int32_t rows = least(op->rows - row, group);
        for (int32_t i = 0; i < (rows + ROWS - 1) / ROWS * ROWS * next; i++) {
            tile->sums[i] = 0.0f;
        }
        for (int32_t k = 0; k < depth; k += step) {
            const int32_t some = least(depth - k, step);
            const struct depth part = {tile->places, one_sum ? 1 : some / op->taps,
                                       one_sum ? some : op->taps, one_sum};
            for (int32_t i = 0; i < panels; i++) {
                const int32_t first = i * POET_LANES;
                float (*const panel)[POET_LANES] = tile->panels + i * depth;
                if (row == 0 || !fits) {
                    op->pack(op->op, lane + first, least(lanes - first, POET_LANES), k, some,
                             tile->places, panel);
                }
                sum_rows(op, &part, row, rows, (const float (*)[POET_LANES])panel, tile->sums + first, next);
            }
        }
        op->put(op->op, row, rows, lane, lanes, tile->sums, next);
    }
    return lanes;
}

void poet_panel_sum_f32(const struct poet_panel *op)
{
    struct tile tile;
    for (int32_t lane = 0; lane < op->lanes;) {
        lane += sum_lanes(op, lane, &tile);
    }
}

#endif
