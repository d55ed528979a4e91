/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles.h"

#if POET_HAS_VFP

/* Most results of a call that a sink takes. */
enum { SUMS = 48 };

/* Called by poet_tiles_sum_f32 behind each call of a block, with the place of its results. */
typedef void put_sums(float *sums, const struct poet_tiles *tiles, int32_t at);

struct target {
    const struct poet_gradient_sink *sink;
    put_sums *put; /* right before the sums, where assembly finds it */
    float sums[SUMS];
};

static void put(float *sums, const struct poet_tiles *tiles, int32_t at)
{
    const struct target *const to = (const void *)((const char *)sums - offsetof(struct target, sums));
    const struct poet_tile_put *const put =
        (const void *)(tiles->loops + (tiles->loop_count - POET_TILE_PUTS));
    int32_t first = put->first + at / (int32_t)sizeof(float);
    for (int32_t row = put->rows; row > 0; row--) {
        poet_gradient_sink_put_run_f32(to->sink, first, put->elements, sums);
        sums += put->elements;
        first += put->step;
    }
}

void poet_tiles_apply_f32(const struct poet_tiles *tiles, const float *source, const float *weight,
                          const struct poet_gradient_sink *sink)
{
    struct target to;
    to.sink = sink;
    to.put = put;
    poet_tiles_sum_f32(tiles, source, weight, NULL, to.sums);
}

#endif
