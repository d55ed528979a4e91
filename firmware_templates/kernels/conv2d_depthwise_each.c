/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_depthwise_each.h"

#include <stddef.h>

#include "conv2d_strip.h"
#include "unroll.h"

/* One position of the result after the other, each in all planes: what the kernel's taps meet there is found once. No padding
 * is multiplied. */

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))

enum { KERNEL = 3 }; /* rows, and columns */

/* One axis of the source and of the result. */
struct side {
    int32_t stride;
    int32_t padding;
    int32_t sources;
};

/* The kernel's taps along one axis that meet the source at a position: from `tap` on, and the source's element under that. */
struct taps {
    int32_t tap;
    int32_t source;
    int32_t count;
};

/* Forward, taps and source go on by one. */
static struct taps taps_of_output(const struct side *side, int32_t position)
{
    const int32_t start = position * side->stride - side->padding;
    const int32_t first = start < 0 ? -start : 0;
    const int32_t end = start + KERNEL > side->sources ? side->sources - start : KERNEL;
    return (struct taps){first, start + first, end - first};
}

/* For dX, taps go on by the stride and the source goes back by one. */
static struct taps taps_of_input(const struct side *side, int32_t position)
{
    const int32_t padded = position + side->padding;
    const int32_t last = padded / side->stride;
    const int32_t output = last < side->sources ? last : side->sources - 1;
    const int32_t first = padded - output * side->stride;
    int32_t count = 0;
    for (int32_t tap = first; tap < KERNEL && count <= output; tap += side->stride) {
        count++;
    }
    return (struct taps){first, output, count};
}

/* A pass over all positions. What is next counts elements. */
struct pass {
    struct side rows;
    struct side columns;
    int32_t source_width;
    int32_t source_plane;
    int32_t result_plane;
    int32_t channels;
    int32_t samples;
};

/* A position in all planes; `step` is that of the source, and for dX below 0. */
INLINE void sum_planes(const struct pass *pass, int32_t step, int32_t rows, int32_t columns,
                       const float *source, const float *weight, const float *bias, float *result)
{
    const int32_t source_row = step * pass->source_width;
    const int32_t weight_row = step > 0 ? KERNEL : KERNEL * pass->rows.stride;
    const int32_t weight_column = step > 0 ? 1 : pass->columns.stride;
    for (int32_t n = 0; n < pass->samples; n++) {
        const float *first = weight;
        for (int32_t channel = 0; channel < pass->channels; channel++) {
            const float *s = source;
            const float *w = first;
            float sum = 0.0f;
            for (int32_t row = rows; row > 0; row--) {
                POET_UNROLL(3)
                for (int32_t column = 0; column < columns; column++) {
                    sum += s[column * step] * w[column * weight_column];
                }
                s += source_row;
                w += weight_row;
            }
            *result = bias != NULL ? sum + bias[channel] : sum;
            source += pass->source_plane;
            result += pass->result_plane;
            first += KERNEL * KERNEL;
        }
    }
}

INLINE void sum_pass(const struct pass *pass, int32_t step, int32_t height, int32_t width,
                     const float *x, const float *w, const float *bias, float *result)
{
    for (int32_t i = 0; i < height; i++) {
        const struct taps rows =
            step > 0 ? taps_of_output(&pass->rows, i) : taps_of_input(&pass->rows, i);
        for (int32_t j = 0; j < width; j++) {
            const struct taps columns =
                step > 0 ? taps_of_output(&pass->columns, j) : taps_of_input(&pass->columns, j);
            const float *source = x + rows.source * pass->source_width + columns.source;
            const float *weight = w + rows.tap * KERNEL + columns.tap;
            if (columns.count == 3) {
                sum_planes(pass, step, rows.count, 3, source, weight, bias, result);
            } else if (columns.count == 2) {
                sum_planes(pass, step, rows.count, 2, source, weight, bias, result);
            } else {
                sum_planes(pass, step, columns.count > 0 ? rows.count : 0, 1, source, weight, bias,
                           result);
            }
            result++;
        }
    }
}

void poet_conv2d_depthwise_each_forward_f32(const struct poet_conv2d *op, const float *x,
                                            const float *w, const float *b, float *y)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_forward_f32(op, x, w, b, y);
        return;
    }
    const struct pass pass = {
        .rows = {op->stride_height, op->padding_top, op->in_height},
        .columns = {op->stride_width, op->padding_left, op->in_width},
        .source_width = op->in_width,
        .source_plane = op->in_height * op->in_width,
        .result_plane = op->out_height * op->out_width,
        .channels = op->groups,
        .samples = op->batch,
    };
    sum_pass(&pass, 1, op->out_height, op->out_width, x, w, b, y);
}

void poet_conv2d_depthwise_each_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                   const float *dy, float *dx)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const struct pass pass = {
        .rows = {op->stride_height, op->padding_top, op->out_height},
        .columns = {op->stride_width, op->padding_left, op->out_width},
        .source_width = op->out_width,
        .source_plane = op->out_height * op->out_width,
        .result_plane = op->in_height * op->in_width,
        .channels = op->groups,
        .samples = op->batch,
    };
    sum_pass(&pass, -1, op->in_height, op->in_width, dy, w, NULL, dx);
}
