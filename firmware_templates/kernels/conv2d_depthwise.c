/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_depthwise.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_column.h"
#include "conv2d_depthwise_each.h"
#include "conv2d_depthwise_taps.h"
#include "fpu.h"
#include "parts.h"
#include "product.h"
#include "unroll.h"
#include "vectors.h"

/* Convolutions whose groups have one input and one output channel: 3x3 kernels with stride 1, plane by plane. Padding is
 * computed as zeros, which leave the bits of every sum of finite numbers as they are. Others are as in conv2d.c. */

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)
#define BY_STRIPS true
#else
#define BY_STRIPS false
#endif

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
    return POET_HAS_FPU && op->kernel_height == 3 && op->kernel_width == 3 &&
           op->stride_height == 1 && op->stride_width == 1 && holds(&plane->rows) &&
           holds(&plane->columns);
}

/* Whether vectors are faster: measured on an x86, where columns that meet padding are half of the work. Threads divide
 * what vectors do. */
static bool by_vectors(const struct plane *plane)
{
#if POET_HAS_VECTORS
    const struct extent *columns = &plane->columns;
    return poet_parts() > 1 || columns->results >= 16 + 5 * (columns->before + columns->after);
#else
    (void)plane;
    return false;
#endif
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

#if BY_STRIPS

/* Four columns of results, which go down a plane; for dX up. */
enum { STRIP = 4 };

/* A strip in all planes. In this order in assembly. What is next counts elements. */
struct strips {
    int32_t source_next; /* to the next row */
    int32_t result_next;
    uint32_t load; /* where in a table of nine the instruction is that loads a row */
    int32_t bias_next;
    int32_t channels;
    int32_t samples;
    int32_t begun; /* rows of the source that a result begins with, before one is whole */
    int32_t rows;  /* of the source that are left */
    int32_t after; /* rows of padding behind them, two at most */
    int32_t source_plane; /* from behind a plane's last row to the next plane's first */
    int32_t result_plane;
    const float *bias;
};

/* `source` is the first column of the first row that the strip meets and that is no padding. */
typedef void sum_strips_f32(const struct strips *strips, const float *source, const float *weight,
                            float *result);

sum_strips_f32 poet_conv2d_depthwise_strips_f32;
sum_strips_f32 poet_conv2d_depthwise_strips_backwards_f32; /* along columns, for dX */

static int32_t columns_of_padding(int32_t columns)
{
    return columns > 0 ? columns : 0;
}

/* All planes as sum_plane has them, to the same bits, with bias. Backwards, it begins before source and result. */
static void sum_strips(const struct poet_conv2d *op, const struct plane *plane, const float *source,
                       const float *weight, const float *bias, float *result, int32_t step)
{
    static const float no_bias = 0.0f;
    const int32_t sources = plane->columns.sources;
    const int32_t results = plane->columns.results;
    const int32_t left = step > 0 ? plane->columns.before : plane->columns.after;
    struct strips strips = {
        .source_next = step * sources,
        .result_next = step * results,
        .bias_next = bias != NULL ? 1 : 0,
        .channels = op->groups,
        .samples = op->batch,
        .begun = 2 - plane->rows.before,
        .rows = plane->rows.sources - 2 + plane->rows.before,
        .after = plane->rows.after,
        .source_plane = (1 - step) * plane->rows.sources * sources,
        .result_plane = (1 - step) * plane->rows.results * results,
        .bias = bias != NULL ? bias : &no_bias,
    };
    if (step < 0) {
        source -= sources;
        result -= results;
    }
    for (int32_t at = 0; at < results; at += STRIP) {
        if (at > results - STRIP) {
            at = results - STRIP; /* over results of the one before */
        }
        const int32_t first = at - left;
        const int32_t zeros = columns_of_padding(-first);
        const int32_t last_zeros = columns_of_padding(first + STRIP + 2 - sources);
        strips.load = (uint32_t)(8 * (3 * (2 - zeros) + 2 - last_zeros)) + 1u;
        (step > 0 ? poet_conv2d_depthwise_strips_f32 : poet_conv2d_depthwise_strips_backwards_f32)(
            &strips, source + first + zeros, weight, result + at);
    }
}

/* Whether strips do, and are faster: what is kept of a plane is begun anew for each of them. Both are estimated cycles, but
 * for what they have in common (python benchmarks/kernels.py); each strip is a call for all planes. */
static bool by_strips(const struct plane *plane, int32_t planes)
{
    const struct extent *rows = &plane->rows;
    const struct extent *columns = &plane->columns;
    if (columns->results < STRIP || columns->after > 2 || rows->after > 2) {
        return false;
    }
    const int32_t threes = (columns->results - columns->after) / 3;
    const int32_t pair = 84 + 156 * threes + 64 * (columns->results - 3 * threes);
    const int32_t strip = 100 + planes * (60 + 91 * rows->sources);
    return (columns->results + STRIP - 1) / STRIP * strip <= planes * ((rows->results + 1) / 2) * pair;
}

#else

static bool by_strips(const struct plane *plane, int32_t planes)
{
    (void)plane, (void)planes;
    return false;
}

static void sum_strips(const struct poet_conv2d *op, const struct plane *plane, const float *source,
                       const float *weight, const float *bias, float *result, int32_t step)
{
    (void)op, (void)plane, (void)source, (void)weight, (void)bias, (void)result, (void)step;
}

#endif

void poet_conv2d_depthwise_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                       const float *b, float *y)
{
    const struct plane plane = forward_plane(op);
    const int32_t elements = op->out_height * op->out_width;
    if (!by_planes(op, &plane) || by_vectors(&plane) || !poet_kernels_are_finite(w, op->groups)) {
        poet_conv2d_depthwise_each_forward_f32(op, x, w, b, y);
        return;
    }
    if (by_strips(&plane, op->batch * op->groups)) {
        sum_strips(op, &plane, x, w, b, y, 1);
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
    if (!by_planes(op, &plane) || by_vectors(&plane) || !poet_kernels_are_finite(w, op->groups)) {
        poet_conv2d_depthwise_each_backward_input_f32(op, w, dy, dx);
        return;
    }
    if (by_strips(&plane, op->batch * op->groups)) {
        const int32_t last = op->out_height * op->out_width;
        sum_strips(op, &plane, dy + last, w, NULL, dx + op->in_height * op->in_width, -1);
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

#if BY_STRIPS

/* Rows of dy that meet the same rows of the kernel, three rows of x each. In this order in assembly. */
struct run {
    int32_t x[3]; /* elements of x before the first one's */
    int32_t count;
    int32_t threes; /* columns of dy that meet another of x, three at a time */
    int32_t left;   /* others that do */
    int32_t after;  /* that meet padding */
    int32_t before; /* columns of padding */
    uint32_t met;   /* a bit for each row of x that is no padding; another lies in its place, to no effect */
};

/* Two rows of padding and two partly of it at most, what is between, and a run of none. */
enum { RUNS = 6 };

poet_add_taps_f32 poet_conv2d_depthwise_taps_f32;

static void set_runs(const struct plane *plane, struct run runs[RUNS])
{
    const int32_t last = plane->rows.sources - 1;
    const int32_t loaded = plane->columns.results - plane->columns.after;
    for (int32_t first = -plane->rows.before; first <= last && plane->rows.results > first + plane->rows.before; first += runs++->count) {
        *runs = (struct run){
            .count = first >= 0 && first + 2 < last ? last - 1 - first : 1,
            .threes = loaded / 3,
            .left = loaded % 3,
            .after = plane->columns.after,
            .before = plane->columns.before,
        };
        for (int32_t tap = 0; tap < 3; tap++) {
            const int32_t row = first + tap;
            const int32_t inside = row < 0 ? 0 : row > last ? last : row;
            runs->x[tap] = inside * plane->columns.sources;
            runs->met |= row == inside ? 1u << tap : 0u;
        }
    }
    runs->count = 0;
}

static void sum_taps(const struct poet_conv2d *op, const struct plane *plane, const float *x,
                     const float *dy, const struct poet_gradient_sink *dw)
{
    if (op->out_width <= POET_FEW_COLUMNS) {
        poet_conv2d_depthwise_few_taps_f32(op, poet_conv2d_depthwise_few_columns_f32, x, dy, dw);
        return;
    }
    struct run runs[RUNS];
    set_runs(plane, runs);
    poet_conv2d_depthwise_put_taps_f32(op, poet_conv2d_depthwise_taps_f32, runs, x, dy, dw);
}

#else

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
        POET_UNROLL(9)
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

#endif

/* As in conv2d_vectors.c, where a row of one position is no sum of its own. */
static bool rows_are_sums(const struct poet_conv2d *op)
{
    return !POET_FUSED || op->out_width > 1;
}

void poet_conv2d_depthwise_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                               const float *dy, float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    const struct plane plane = forward_plane(op);
    if (by_planes(op, &plane) && rows_are_sums(op)) {
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
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    const struct plane plane = forward_plane(op);
    if (by_planes(op, &plane) && rows_are_sums(op)) {
        sum_taps(op, &plane, x, dy, &sink);
    } else {
        poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
    }
}
