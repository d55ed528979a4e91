/* SPDX-License-Identifier: Apache-2.0 */
#include "pooled_conv2d.h"

#include <stddef.h>

/* An op, its epilogues, and room for the feature map of a slice of a sample. */
struct chain {
    const struct poet_pooled_conv2d *op;
    const struct poet_epilogue *activation;
    const struct poet_epilogue *pool;
    float *map;
};

static void run_slice(const void *of_op, const float *x, const float *w, const float *b, float *y)
{
    const struct chain *chain = of_op;
    poet_conv2d_forward_f32(&chain->op->layer, x, w, b, chain->map);
    if (chain->activation != NULL) {
        chain->activation->run(chain->activation, chain->map, chain->map);
    }
    chain->pool->run(chain->pool, chain->map, y);
}

void poet_pooled_conv2d_forward_f32(const struct poet_pooled_conv2d *op, const float *x, const void *weights,
                                    const float *b, const float *scales, const struct poet_epilogue *activation,
                                    const struct poet_epilogue *pool, float *y, void *workspace)
{
    float *w = workspace;
    const struct chain chain = {op, activation, pool, w + op->unpacked};
    poet_run_packed_f32(&op->packed, run_slice, &chain, x, weights, b, scales, y, op->unpacked == 0 ? NULL : w);
}
