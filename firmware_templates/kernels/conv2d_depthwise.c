/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_depthwise.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_column.h"
#include "fpu.h"
#include "product.h"
#include "vectors.h"

/* Convolutions whose groups have one input and one output channel: 3x3 kernels that move by 1, plane by plane. Padding is
 * computed as zeros, which leave the bits of every sum of finite numbers as they are. Others are as in conv2d.c. */

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))

/* One axis: positions of the result, elements of the source, and the zeros that pad it on either side. */
struct extent {
    int32_t results;
    int32_t sources;
    int32_t before;
    int32_t after;
};

/* A channel of the source and one of the result. */
struct plane {
    struct extent rows;
    struct extent columns;
};

static struct extent extent_of(int32_t results, int32_t sources, int32_t before)
{
    const struct extent extent = {results, sources, before, results + 2 - sources - before};
    return extent;
}

/* The source is the input. */
static struct plane forward_plane(const struct poet_conv2d *op)
{
    const struct plane plane = {extent_of(op->out_height, op->in_height, op->padding_top),
                                extent_of(op->out_width, op->in_width, op->padding_left)};
    return plane;
}

/* The source is the output's gradient, and both are walked backwards. */
static struct plane backward_plane(const struct poet_conv2d *op)
{
    const struct plane plane = {
        extent_of(op->in_height, op->out_height, op->in_height + op->padding_top - op->out_height),
        extent_of(op->in_width, op->out_width, op->in_width + op->padding_left - op->out_width)};
    return plane;
}

static bool holds(const struct extent *extent)
{
    return extent->before >= 0 && extent->before <= 2 && extent->after >= 0 &&
           extent->results >= extent->after;
}

static bool by_planes(const struct poet_conv2d *op, const struct plane *plane)
{
    /* as in conv2d_vectors.c, where a row of one position is no sum of its own */
    const bool rows_are_sums = !POET_HAS_VECTORS || op->out_width > 1;
    return POET_HAS_FPU && rows_are_sums && op->kernel_height == 3 && op->kernel_width == 3 &&
           op->stride_height == 1 && op->stride_width == 1 && holds(&plane->rows) &&
           holds(&plane->columns);
}

/* Where a row is, and the elements to its next three columns. */
struct line {
    const float *at;
    int32_t next;
};

/* A row of the source, or zeros where it is padding: enough of them for what no loop walks along. */
static struct line padded(struct line line, int32_t row, int32_t rows)
{
    static const float zeros[9] = {0.0f};
    const struct line padding = {&zeros[4], 0};
    return row < 0 || row >= rows ? padding : line;
}

/* 0 is what a sum begins with, and makes 0 of -0. */
INLINE void put_2(const float w[9], const struct poet_column *l, const struct poet_column *m,
                  const struct poet_column *r, float *above, float *below)
{
    *above = 0.0f + poet_sum_9(w, l->a, m->a, r->a, l->b, m->b, r->b, l->c, m->c, r->c);
    *below = 0.0f + poet_sum_9(w, l->b, m->b, r->b, l->c, m->c, r->c, l->d, m->d, r->d);
}

/* A column of the source is loaded once for two rows of results, and stays in registers for three. */
INLINE void sum_plane(const struct plane *plane, const float *source, const float *weight,
                      float *result, int32_t step)
{
    const float w[9] = {weight[0], weight[1], weight[2], weight[3], weight[4],
                        weight[5], weight[6], weight[7], weight[8]};
    static const struct poet_column zero = {0.0f, 0.0f, 0.0f, 0.0f};
    const int32_t before = plane->columns.before;
    const int32_t after = plane->columns.after;
    const int32_t rows = plane->rows.sources;
    const int32_t source_row = step * plane->columns.sources;
    const int32_t result_row = step * plane->columns.results;
    float nowhere[5]; /* the row below the last of an odd number */
    int32_t row = -plane->rows.before;
    source += row * source_row + (1 - before) * step; /* the middle of the first three columns */
    for (int32_t results = plane->rows.results; results > 0; results -= 2) {
        struct line s0 = {source, 3 * step};
        struct line s1 = {s0.at + source_row, 3 * step};
        struct line s2 = {s1.at + source_row, 3 * step};
        struct line s3 = {s2.at + source_row, 3 * step};
        float *above = result;
        float *below = result + result_row;
        int32_t below_next = 3 * step;
        if (row < 0 || row + 3 >= rows) {
            s0 = padded(s0, row, rows);
            s1 = padded(s1, row + 1, rows);
            s2 = padded(s2, row + 2, rows);
            s3 = padded(s3, row + 3, rows);
            if (results == 1) {
                below = &nowhere[2];
                below_next = 0;
            }
        }
        struct poet_column l = zero;
        struct poet_column m = zero;
        if (before < 2) {
            m = (struct poet_column){*s0.at, *s1.at, *s2.at, *s3.at};
            if (before < 1) {
                l = (struct poet_column){s0.at[-step], s1.at[-step], s2.at[-step], s3.at[-step]};
            }
        }
        int32_t left = plane->columns.results - after;
        for (; left >= 3; left -= 3) {
            const struct poet_column r = {s0.at[step], s1.at[step], s2.at[step], s3.at[step]};
            put_2(w, &l, &m, &r, above, below);
            l = (struct poet_column){s0.at[2 * step], s1.at[2 * step], s2.at[2 * step],
                                     s3.at[2 * step]};
            put_2(w, &m, &r, &l, above + step, below + step);
            m = (struct poet_column){s0.at[3 * step], s1.at[3 * step], s2.at[3 * step],
                                     s3.at[3 * step]};
            put_2(w, &r, &l, &m, above + 2 * step, below + 2 * step);
            s0.at += s0.next;
            s1.at += s1.next;
            s2.at += s2.next;
            s3.at += s3.next;
            above += 3 * step;
            below += below_next;
        }
        for (left += after; left > 0; left--) {
            struct poet_column r = zero;
            if (left > after) {
                s0.at += step;
                s1.at += step;
                s2.at += step;
                s3.at += step;
                r = (struct poet_column){*s0.at, *s1.at, *s2.at, *s3.at};
            }
            put_2(w, &l, &m, &r, above, below);
            l = m;
            m = r;
            above += step;
            below += below_next == 0 ? 0 : step;
        }
        row += 2;
        source += 2 * source_row;
        result += 2 * result_row;
    }
}

static void add_bias(float *plane, int32_t elements, float bias)
{
    for (int32_t i = 0; i < elements; i++) {
        plane[i] += bias;
    }
}

void poet_conv2d_depthwise_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                       const float *b, float *y)
{
    const struct plane plane = forward_plane(op);
    const int32_t elements = op->out_height * op->out_width;
    if (POET_HAS_VECTORS || !by_planes(op, &plane) || !poet_are_finite(w, 9 * op->groups)) {
        poet_conv2d_forward_f32(op, x, w, b, y);
        return;
    }
    for (int32_t n = 0; n < op->batch; n++) {
        for (int32_t channel = 0; channel < op->groups; channel++) {
            sum_plane(&plane, x, w + 9 * channel, y, 1);
            if (b != NULL) {
                add_bias(y, elements, b[channel]);
            }
            x += op->in_height * op->in_width;
            y += elements;
        }
    }
}

void poet_conv2d_depthwise_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                              const float *dy, float *dx)
{
    const struct plane plane = backward_plane(op);
    if (POET_HAS_VECTORS || !by_planes(op, &plane) || !poet_are_finite(w, 9 * op->groups)) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    for (int32_t n = 0; n < op->batch; n++) {
        for (int32_t channel = 0; channel < op->groups; channel++) {
            dy += op->out_height * op->out_width;
            dx += op->in_height * op->in_width;
            sum_plane(&plane, dy - 1, w + 9 * channel, dx - 1, -1);
        }
    }
}

/* The sums of the nine taps, each of the products of one row of dy with what the tap meets there. */
struct taps {
    float of[9];
};

INLINE void add_products(struct taps *sum, float g, float l0, float m0, float r0, float l1, float m1,
                         float r1, float l2, float m2, float r2)
{
    sum->of[0] = poet_add_product(sum->of[0], l0, g);
    sum->of[1] = poet_add_product(sum->of[1], m0, g);
    sum->of[2] = poet_add_product(sum->of[2], r0, g);
    sum->of[3] = poet_add_product(sum->of[3], l1, g);
    sum->of[4] = poet_add_product(sum->of[4], m1, g);
    sum->of[5] = poet_add_product(sum->of[5], r1, g);
    sum->of[6] = poet_add_product(sum->of[6], l2, g);
    sum->of[7] = poet_add_product(sum->of[7], m2, g);
    sum->of[8] = poet_add_product(sum->of[8], r2, g);
}

INLINE void add_position(struct taps *sum, const float *g, const struct poet_column *l,
                         const struct poet_column *m, const struct poet_column *r)
{
    add_products(sum, *g, l->a, m->a, r->a, l->b, m->b, r->b, l->c, m->c, r->c);
}

/* One channel of one sample: each row of dy with three rows of x. */
static void add_plane(const struct plane *plane, const float *x, const float *dy,
                      struct taps *total)
{
    static const struct poet_column zero = {0.0f, 0.0f, 0.0f, 0.0f};
    const int32_t before = plane->columns.before;
    const int32_t after = plane->columns.after;
    const int32_t width = plane->columns.sources;
    const int32_t rows = plane->rows.sources;
    x += 1 - before - plane->rows.before * width; /* the middle of the first three columns */
    for (int32_t i = 0; i < plane->rows.results; i++) {
        const int32_t row = i - plane->rows.before;
        struct line s0 = {x, 3};
        struct line s1 = {s0.at + width, 3};
        struct line s2 = {s1.at + width, 3};
        if (row < 0 || row + 2 >= rows) {
            s0 = padded(s0, row, rows);
            s1 = padded(s1, row + 1, rows);
            s2 = padded(s2, row + 2, rows);
        }
        struct taps sum = {{0.0f}};
        struct poet_column l = zero;
        struct poet_column m = zero;
        if (before < 2) {
            m = (struct poet_column){*s0.at, *s1.at, *s2.at, 0.0f};
            if (before < 1) {
                l = (struct poet_column){s0.at[-1], s1.at[-1], s2.at[-1], 0.0f};
            }
        }
        int32_t left = plane->columns.results - after;
        for (; left >= 3; left -= 3) {
            const struct poet_column r = {s0.at[1], s1.at[1], s2.at[1], 0.0f};
            add_position(&sum, dy, &l, &m, &r);
            l = (struct poet_column){s0.at[2], s1.at[2], s2.at[2], 0.0f};
            add_position(&sum, dy + 1, &m, &r, &l);
            m = (struct poet_column){s0.at[3], s1.at[3], s2.at[3], 0.0f};
            add_position(&sum, dy + 2, &r, &l, &m);
            s0.at += s0.next;
            s1.at += s1.next;
            s2.at += s2.next;
            dy += 3;
        }
        for (left += after; left > 0; left--) {
            struct poet_column r = zero;
            if (left > after) {
                r = (struct poet_column){*++s0.at, *++s1.at, *++s2.at, 0.0f};
            }
            add_position(&sum, dy++, &l, &m, &r);
            l = m;
            m = r;
        }
        _Pragma("GCC unroll 9")
        for (int32_t tap = 0; tap < 9; tap++) {
            total->of[tap] += sum.of[tap];
        }
        x += width;
    }
}

/* A tap's sum in one channel without padding, for gradients that make NaN of a zero. */
static float sum_of_tap(const struct poet_conv2d *op, const struct plane *plane, int32_t channel,
                        int32_t tap, const float *x, const float *dy)
{
    const int32_t up = tap / 3 - plane->rows.before;
    const int32_t along = tap % 3 - plane->columns.before;
    float total = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        const int32_t at = n * op->groups + channel;
        for (int32_t i = 0; i < op->out_height; i++) {
            const float *row = x + (at * op->in_height + i + up) * op->in_width;
            const float *g = dy + (at * op->out_height + i) * op->out_width;
            float sum = 0.0f;
            for (int32_t j = 0; i + up >= 0 && i + up < op->in_height && j < op->out_width; j++) {
                if (j + along >= 0 && j + along < op->in_width) {
                    sum = poet_add_product(sum, row[j + along], g[j]);
                }
            }
            total += sum;
        }
    }
    return total;
}

static void sum_taps(const struct poet_conv2d *op, const struct plane *plane, const float *x,
                     const float *dy, const struct poet_gradient_sink *dw)
{
    const int32_t x_plane = op->in_height * op->in_width;
    const int32_t dy_plane = op->out_height * op->out_width;
    for (int32_t channel = 0; channel < op->groups; channel++) {
        struct taps total = {{0.0f}};
        for (int32_t n = 0; n < op->batch; n++) {
            const int32_t at = n * op->groups + channel;
            add_plane(plane, x + at * x_plane, dy + at * dy_plane, &total);
        }
        for (int32_t tap = 0; tap < 9; tap++) {
            const float sum = total.of[tap] == total.of[tap]
                                  ? total.of[tap]
                                  : sum_of_tap(op, plane, channel, tap, x, dy);
            poet_gradient_sink_put_f32(dw, 9 * channel + tap, sum);
        }
    }
}

void poet_conv2d_depthwise_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                               const float *dy, float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    const struct plane plane = forward_plane(op);
    if (by_planes(op, &plane)) {
        sum_taps(op, &plane, x, dy, &sink);
    } else {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
    }
}

void poet_conv2d_depthwise_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    const struct poet_gradient_sink sink = {
        .update = update, .pace = pace, .parameter = w, .first = first, .second = second,
        .sum = sum};
    const struct plane plane = forward_plane(op);
    if (by_planes(op, &plane)) {
        sum_taps(op, &plane, x, dy, &sink);
    } else {
        poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
    }
}
