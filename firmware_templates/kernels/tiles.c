/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles.h"

#if POET_HAS_VFP

#include <stdbool.h>

/* Most results of a call that a sink takes. */
enum { SUMS = 48 };

/* Called by poet_tiles_sum_f32 behind each call of a block, with the place of its results. */
typedef void put_sums(float *sums, const struct poet_tiles *tiles, int32_t at, uint32_t suspect);

struct target {
    const struct poet_gradient_sink *sink;
    poet_gradient_again_f32 *again;
    const void *op;
    const float *x;
    const float *dy;
    put_sums *put; /* right before the sums, where assembly finds it */
    float sums[SUMS];
};

static void take_again(const struct target *to, int32_t first, int32_t count, float *sums)
{
    for (int32_t i = 0; i < count; i++) {
        if (sums[i] != sums[i]) {
            sums[i] = to->again(to->op, first + i, to->x, to->dy);
        }
    }
}

static void put(float *sums, const struct poet_tiles *tiles, int32_t at, uint32_t suspect)
{
    const struct target *const to = (const void *)((const char *)sums - offsetof(struct target, sums));
    const struct poet_tile_put *const put =
        (const void *)(tiles->loops + (tiles->loop_count - POET_TILE_PUTS));
    int32_t first = put->first + at / (int32_t)sizeof(float);
    for (int32_t row = put->rows; row > 0; row--) {
        if (suspect != 0u && to->again != NULL) {
            take_again(to, first, put->elements, sums);
        }
        poet_gradient_sink_put_run_f32(to->sink, first, put->elements, sums);
        sums += put->elements;
        first += put->step;
    }
}

void poet_tiles_gradient_f32(const struct poet_tiles *tiles, const float *x, const float *dy, float *dw,
                             int32_t weights, poet_gradient_again_f32 *again, const void *op)
{
    if (poet_tiles_sum_f32(tiles, x, dy, NULL, dw) != 0u) {
        const struct target to = {.again = again, .op = op, .x = x, .dy = dy};
        take_again(&to, 0, weights, dw);
    }
}

void poet_tiles_apply_f32(const struct poet_tiles *tiles, const float *source, const float *weight,
                          const struct poet_gradient_sink *sink, poet_gradient_again_f32 *again,
                          const void *op)
{
    struct target to;
    to.sink = sink;
    to.again = again;
    to.op = op;
    to.x = source;
    to.dy = weight;
    to.put = put;
    (void)poet_tiles_sum_f32(tiles, source, weight, NULL, to.sums);
}

#endif
