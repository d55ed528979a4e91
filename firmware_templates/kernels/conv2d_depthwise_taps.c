/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_depthwise_taps.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

#include "conv2d_positions.h"
#include "conv2d_taps.h"

static int32_t least(int32_t one, int32_t other)
{
    return one < other ? one : other;
}

static void set_columns(const struct poet_conv2d *op, struct poet_few_columns *at)
{
    const int32_t stride = op->stride_width;
    const int32_t before = op->padding_left;
    const int32_t whole = POET_FEW_COLUMNS * stride + 3 - stride; /* columns that a row of dy meets, at most */
    const int32_t met = least((op->out_width - 1) * stride + 3 - before, op->in_width);
    const int32_t load = before * whole - (before > 1 ? 1 : 0) + met - 1;
    at->row_next = op->stride_height * op->in_width;
    at->load = (uint32_t)(6 * load) + 1u;
    at->others = op->out_width - 1;
}

static void set_rows(const struct poet_conv2d *op, struct poet_few_columns *at)
{
    const int32_t x_sample = op->groups * op->in_height * op->in_width;
    const int32_t dy_sample = op->groups * op->out_height * op->out_width;
    for (int32_t row = 0; row < 3; row++) {
        const struct poet_positions rows = poet_positions_of_tap(
            row, op->stride_height, op->padding_top, op->in_height, op->out_height);
        at->rows[row] = (struct poet_met_rows){
            .dy_begin = rows.output * op->out_width,
            .x_begin = rows.source * op->in_width,
            .samples = op->batch,
            .rows = rows.count,
            .x_next = x_sample - rows.count * at->row_next,
            .dy_next = dy_sample - rows.count * op->out_width,
        };
    }
    at->rows[3] = (struct poet_met_rows){
        .dy_begin = op->out_height * op->out_width,
        .x_begin = op->in_height * op->in_width,
    };
}

/* Puts a channel's, which come to `sum` and are in their place already if that is memory. Those that a zero for padding may have
 * made NaN are taken again. */
static void put_taps(const struct poet_conv2d *op, float sum, float taps[9], const float *x,
                     const float *dy, const struct poet_gradient_sink *dw, int32_t channel)
{
    for (int32_t row = 0; sum != sum && row < 3; row++) {
        const struct poet_positions rows = poet_positions_of_tap(
            row, op->stride_height, op->padding_top, op->in_height, op->out_height);
        poet_conv2d_sum_taps_again_f32(op, &rows, x, dy, taps + 3 * row);
    }
    if (dw->gradient == NULL) {
        poet_gradient_sink_put_run_f32(dw, 9 * channel, 9, taps);
    }
}

void poet_conv2d_depthwise_put_taps_f32(const struct poet_conv2d *op,
                                        poet_add_taps_f32 *add_taps, const void *runs,
                                        const float *x, const float *dy,
                                        const struct poet_gradient_sink *dw)
{
    const int32_t x_plane = op->in_height * op->in_width;
    const int32_t dy_plane = op->out_height * op->out_width;
    for (int32_t channel = 0; channel < op->groups; channel++) {
        float few[9];
        float *taps = dw->gradient != NULL ? dw->gradient + 9 * channel : few;
        for (int32_t tap = 0; tap < 9; tap++) {
            taps[tap] = 0.0f;
        }
        for (int32_t n = 0; n < op->batch; n++) {
            const int32_t other = n * op->groups;
            add_taps(runs, dy + other * dy_plane, taps, x + other * x_plane);
        }
        const float sum = taps[0] + taps[1] + taps[2] + (taps[3] + taps[4] + taps[5]) +
                          (taps[6] + taps[7] + taps[8]);
        put_taps(op, sum, taps, x, dy, dw, channel);
        x += x_plane;
        dy += dy_plane;
    }
}

void poet_conv2d_depthwise_few_taps_f32(const struct poet_conv2d *op,
                                        poet_sum_few_columns_f32 *sum_taps, const float *x,
                                        const float *dy, const struct poet_gradient_sink *dw)
{
    struct poet_few_columns at;
    set_columns(op, &at);
    set_rows(op, &at);
    at.channels = dw->gradient != NULL ? op->groups : 1;
    for (int32_t first = 0; first < op->groups; first += at.channels) {
        float few[9];
        float *taps = dw->gradient != NULL ? dw->gradient : few;
        const float sum = sum_taps(&at, dy, taps, x);
        for (int32_t channel = 0; (sum != sum || taps == few) && channel < at.channels; channel++) {
            put_taps(op, sum, taps + 9 * channel, x + channel * at.rows[3].x_begin,
                     dy + channel * at.rows[3].dy_begin, dw, first);
        }
        x += at.rows[3].x_begin;
        dy += at.rows[3].dy_begin;
    }
}

#endif
