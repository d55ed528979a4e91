/* SPDX-License-Identifier: Apache-2.0 */
#include "packed_linear.h"

#include <stddef.h>

static void forward(const void *op, const float *x, const float *w, const float *b, float *y)
{
    const struct poet_packed_linear *packed = op;
    poet_matmul_biased_f32(&packed->layer, x, w, b, y);
}

static void backward_input(const void *op, const float *dy, const float *w, const float *b, float *dx)
{
    const struct poet_packed_linear *packed = op;
    (void)b;
    poet_matmul_f32(&packed->layer, dy, w, dx);
}

void poet_packed_linear_forward_f32(const struct poet_packed_linear *op, const float *x, const int32_t *words,
                                    const float *b, const float *scales, float *y, void *workspace)
{
    poet_run_packed_f32(&op->packed, forward, op, x, words, b, scales, y, workspace);
}

void poet_packed_linear_backward_input_f32(const struct poet_packed_linear *op, const int32_t *words,
                                           const float *dy, const float *scales, float *dx, void *workspace)
{
    poet_run_packed_f32(&op->packed, backward_input, op, dy, words, NULL, scales, dx, workspace);
}
