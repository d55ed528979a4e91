/* SPDX-License-Identifier: Apache-2.0 */
#include "packed_linear.h"

#include <stddef.h>

static void forward(const void *op, const float *x, const float *w, const float *b, float *y)
{
    const struct poet_packed_linear *packed = op;
    packed->kernel(&packed->layer, x, w, b, y);
}

static void backward_input(const void *op, const float *dy, const float *w, const float *b, float *dx)
{
    const struct poet_packed_linear_input *packed = op;
    (void)b;
    packed->kernel(&packed->layer, w, dy, dx);
}

void poet_packed_linear_forward_f32(const struct poet_packed_linear *op, const float *x, const int32_t *words,
                                    const float *b, const float *scales, float *y, void *workspace)
{
    poet_run_packed_f32(&op->packed, forward, op, x, words, b, scales, y, workspace);
}

void poet_packed_linear_backward_input_f32(const struct poet_packed_linear_input *op, const int32_t *words,
                                           const float *dy, const float *scales, float *dx, void *workspace)
{
    poet_run_packed_f32(&op->packed, backward_input, op, dy, words, NULL, scales, dx, workspace);
}
