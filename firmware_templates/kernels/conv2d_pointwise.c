/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise.h"

#include "conv2d_strip.h"

static void sum_rows(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    const int32_t plane = op->in_height * op->in_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const struct poet_rows at = {
        .samples = op->batch,
        .rows = op->in_height,
        .strips = op->in_width / POET_STRIP,
        .x_other = plane,
        .dy_other = plane,
        .x_next = (op->in_channels - 1) * plane,
        .dy_next = (op->out_channels - 1) * plane,
    };
    for (int32_t o = 0; o < op->out_channels; o += 4) {
        const float *source = x + o / group_out * group_in * plane;
        for (int32_t c = 0; c < group_in; c += 2) {
            float totals[4][2] = {{0.0f}};
            poet_conv2d_pair_rows_f32(&at, source + c * plane, dy + o * plane, totals);
            for (int32_t i = 0; i < 4; i++) {
                poet_gradient_sink_put_run_f32(dw, (o + i) * group_in + c, 2, totals[i]);
            }
        }
    }
}

void poet_conv2d_pointwise_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                               const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_rows(op, x, dy, &sink);
}

void poet_conv2d_pointwise_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
        return;
    }
    const struct poet_gradient_sink sink = {
        .update = update, .pace = pace, .parameter = w, .first = first, .second = second,
        .sum = sum};
    sum_rows(op, x, dy, &sink);
}
