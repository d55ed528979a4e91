/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_taps.h"

static float sum_tap(const struct poet_conv2d *op, const struct poet_positions *rows, int32_t tap,
                     const float *x, const float *dy)
{
    const int32_t stride = op->stride_width;
    const struct poet_positions columns =
        poet_positions_of_tap(tap, stride, op->padding_left, op->in_width, op->out_width);
    float total = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        for (int32_t i = 0; i < rows->count; i++) {
            const float *s = x + (rows->source + stride * i) * op->in_width + columns.source;
            const float *g = dy + (rows->output + i) * op->out_width + columns.output;
            float sum = 0.0f;
            for (int32_t j = 0; j < columns.count; j++) {
                sum += s[stride * j] * g[j];
            }
            total += sum;
        }
        x += op->in_channels * op->in_height * op->in_width;
        dy += op->out_channels * op->out_height * op->out_width;
    }
    return total;
}

__attribute__((cold)) void poet_conv2d_sum_taps_again_f32(const struct poet_conv2d *op,
                                                          const struct poet_positions *rows,
                                                          const float *x, const float *dy,
                                                          float *totals)
{
    for (int32_t tap = 0; tap < op->kernel_width; tap++) {
        if (totals[tap] != totals[tap]) {
            totals[tap] = sum_tap(op, rows, tap, x, dy);
        }
    }
}
