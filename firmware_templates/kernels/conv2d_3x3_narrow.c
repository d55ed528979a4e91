/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_3x3_narrow.h"

#include <stddef.h>

#include "conv2d_positions.h"
#include "conv2d_strip.h"

/* A row of x stays in registers for four output channels, each of which is through with the row before the next begins; so
 * there is room for all totals. Padding is left out. */

/* The rows of x and dy at which a row of the kernel meets the input. What is next counts elements. */
struct rows {
    int32_t x_next;  /* from the row of x that would be next to a sample's last one to the next sample's first */
    int32_t dy_next;
    int32_t count;
    int32_t x_first;
    int32_t dy_first;
};

/* What is summed for all weights between an input and four output channels. In this order in assembly. */
struct narrow {
    int32_t dy_other; /* to the next output channel */
    int32_t samples;
    int32_t odd;   /* whether the last column of a kernel with stride 2 has met padding */
    int32_t x_row; /* to the next row that is met */
    struct rows rows[3];
};

/* The sums of each row, one after the other. */
typedef void sum_narrow_f32(const struct narrow *at, const float *x, const float *dy,
                            float totals[4][9]);

/* Kernels with stride 1 to planes of up to 3 columns, as conv2d_3x3.c has strips of four, and with stride 2 of up to 4. */
#define WIDTHS(EACH) EACH(1, 1) EACH(2, 1) EACH(3, 1) EACH(1, 2) EACH(2, 2) EACH(3, 2) EACH(4, 2)
#define DECLARE(width, step) sum_narrow_f32 poet_conv2d_narrow_##width##_by_##step##_f32;
WIDTHS(DECLARE)

/* dX of a kernel with stride 2 from planes of two columns. What is next counts bytes. In this order in assembly. */
struct narrow_backwards {
    int32_t rows; /* of dy */
    int32_t channels;
    int32_t channel_next; /* of dy */
    int32_t weight_next;  /* to the weights of the next channel of dy */
    int32_t odd_width;    /* whether dx has three columns, and not four */
    int32_t odd_height;   /* whether its last row is that under the middle of the kernel */
};

/* The rows of dx of one channel: two for each row of dy. */
void poet_conv2d_narrow_backwards_f32(const struct narrow_backwards *at, const float *dy,
                                      const float *weight, float *dx);

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

/* The same sums in C. */
static inline __attribute__((always_inline)) void sum_rows(const struct narrow *at, int32_t width,
                                                           int32_t step, const float *x,
                                                           const float *dy, float totals[4][9])
{
    const int32_t columns = step == 2 ? 2 * width - at->odd : width;
    for (int32_t i = 0; i < 36; i++) {
        const struct rows *rows = &at->rows[i % 9 / 3];
        const float *s = x + rows->x_first;
        const float *g = dy + rows->dy_first + i / 9 * at->dy_other;
        float total = 0.0f;
        for (int32_t row = 0; row < at->samples * rows->count; row++) {
            float sum = 0.0f;
            for (int32_t column = 0; column < width; column++) {
                const int32_t met = step * column + i % 3 - 1;
                if (met >= 0 && met < columns) {
                    sum += s[met] * g[column];
                }
            }
            total += sum;
            const int32_t last = (row + 1) % rows->count == 0 ? 1 : 0;
            s += at->x_row + last * rows->x_next;
            g += width + last * rows->dy_next;
        }
        totals[i / 9][i % 9] = total;
    }
}

#define DEFINE(width, step) \
    void poet_conv2d_narrow_##width##_by_##step##_f32(const struct narrow *at, const float *x, \
                                                      const float *dy, float totals[4][9]) \
    { \
        sum_rows(at, width, step, x, dy, totals); \
    }
WIDTHS(DEFINE)

void poet_conv2d_narrow_backwards_f32(const struct narrow_backwards *at, const float *dy,
                                      const float *weight, float *dx)
{
    const int32_t size = sizeof *dy;
    const int32_t width = at->odd_width != 0 ? 3 : 4;
    for (int32_t row = 0; row < 2 * at->rows - at->odd_height; row++) {
        for (int32_t column = 0; column < width; column++) {
            float total = 0.0f;
            for (int32_t channel = 0; channel < at->channels; channel++) {
                float sum = 0.0f;
                for (int32_t tap = 0; tap < 9; tap++) {
                    const int32_t i = row + 1 - tap / 3;
                    const int32_t j = column + 1 - tap % 3;
                    if (i >= 0 && j >= 0 && i % 2 + j % 2 == 0 && i < 2 * at->rows && j < 4) {
                        sum += dy[channel * at->channel_next / size + i + j / 2] *
                               weight[channel * at->weight_next / size + tap];
                    }
                }
                total += sum;
            }
            *dx++ = total;
        }
    }
}

#endif

static struct narrow narrow_of(const struct poet_conv2d *op)
{
    struct narrow at = {
        .dy_other = op->out_height * op->out_width,
        .samples = op->batch,
        .odd = op->in_width % 2,
        .x_row = op->stride_height * op->in_width,
    };
    for (int32_t row = 0; row < 3; row++) {
        const struct poet_positions met = poet_positions_of_tap(
            row, op->stride_height, 1, op->in_height, op->out_height);
        at.rows[row] = (struct rows){
            .x_next = op->in_channels * op->in_height * op->in_width - met.count * at.x_row,
            .dy_next = op->out_channels * at.dy_other - met.count * op->out_width,
            .count = met.count,
            .x_first = met.source * op->in_width,
            .dy_first = met.output * op->out_width,
        };
    }
    return at;
}

/* Output channels by fours, of which a group's last may make some again. */
static void sum_taps(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    static sum_narrow_f32 *const sums[2][4] = {
        {poet_conv2d_narrow_1_by_1_f32, poet_conv2d_narrow_2_by_1_f32,
         poet_conv2d_narrow_3_by_1_f32, NULL},
        {poet_conv2d_narrow_1_by_2_f32, poet_conv2d_narrow_2_by_2_f32,
         poet_conv2d_narrow_3_by_2_f32, poet_conv2d_narrow_4_by_2_f32},
    };
    sum_narrow_f32 *const sum = sums[op->stride_width - 1][op->out_width - 1];
    const struct narrow at = narrow_of(op);
    const int32_t plane = op->in_height * op->in_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    for (int32_t group = 0; group < op->groups; group++) {
        for (int32_t out = 0; out < group_out; out += 4) {
            const int32_t begin = out + 4 <= group_out ? out : group_out - 4;
            const int32_t first = group * group_out + begin;
            for (int32_t c = 0; c < group_in; c++) {
                float totals[4][9];
                sum(&at, x + c * plane, dy + first * at.dy_other, totals);
                for (int32_t o = out - begin; o < 4; o++) {
                    poet_gradient_sink_put_few_f32(dw, ((first + o) * group_in + c) * 9, 9,
                                                   totals[o]);
                }
            }
        }
        x += group_in * plane;
    }
}

void poet_conv2d_3x3_narrow_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_3x3_narrow_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                                       const float *dy,
                                                       const struct poet_update *update,
                                                       const float *pace, float *w, float *first,
                                                       float *second, float *sum)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
        return;
    }
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_3x3_narrow_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                               const float *dy, float *dx)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t plane = op->out_height * op->out_width;
    const struct narrow_backwards at = {
        .rows = op->out_height,
        .channels = group_out,
        .channel_next = plane * (int32_t)sizeof *dy,
        .weight_next = group_in * 9 * (int32_t)sizeof *w,
        .odd_width = op->in_width % 2,
        .odd_height = op->in_height % 2,
    };
    for (int32_t n = 0; n < op->batch; n++) {
        const float *weight = w;
        for (int32_t group = 0; group < op->groups; group++) {
            for (int32_t channel = 0; channel < group_in; channel++) {
                poet_conv2d_narrow_backwards_f32(&at, dy, weight + channel * 9, dx);
                dx += op->in_height * op->in_width;
            }
            weight += group_in * group_out * 9;
            dy += group_out * plane;
        }
    }
}
