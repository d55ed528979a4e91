/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_depthwise_5x5.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_positions.h"
#include "conv2d_taps.h"
#include "unroll.h"

/* Padding is computed as zeros, which leave the bits of every sum of finite numbers as they are; where weights are not
 * finite, conv2d.c's loops compute the pass. They are what other cores take, too. */

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* Rows and columns of a kernel, and columns of results that go down a plane together; for dX by 2 more. */
enum { KERNEL = 5, TAPS = KERNEL * KERNEL, STRIP = 4, WIDE = 2 * STRIP };

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))
#define EACH_ROW POET_UNROLL(5)

/* In this order in assembly. What is next counts elements. */
struct strip {
    int32_t source_next; /* to the next row */
    int32_t samples;
    int32_t sources; /* rows */
    int32_t result_next;
    int32_t columns;       /* of results that are stored */
    uint32_t load;         /* where in a table the instruction is that loads a row */
    float shift;           /* for each result; not -0 */
    int32_t source_sample; /* from where a sample's next row would be to the next sample's first */
    int32_t result_sample;
    /* For dX by 2, which goes up dy for dx's even rows, and again for its odd ones: */
    int32_t again_result; /* from where an even row before the first would be to the last odd one */
    int32_t again;        /* 0 where the last row is odd, 1 where it is even, -1 where it is the only one */
};

/* `source` is the first column of the first row that the strip meets and that is no padding. */
typedef void sum_strip_f32(const struct strip *strip, const float *source, const float *weight,
                           float *result);

sum_strip_f32 poet_conv2d_depthwise_5x5_strip_f32;
sum_strip_f32 poet_conv2d_depthwise_5x5_strip_backwards_f32; /* along columns, for dX */
sum_strip_f32 poet_conv2d_depthwise_5x5_by_2_strip_f32;
sum_strip_f32 poet_conv2d_depthwise_5x5_by_2_wide_strip_f32; /* dX, from the last row of dy up */

/* Rows that a row of the kernel meets in each sample. In this order in assembly. */
struct tap_row {
    int32_t x; /* elements before the first one */
    int32_t dy;
    int32_t rows;   /* below 0 behind the last */
    int32_t x_next; /* from behind a sample's last row to the next one's first */
    int32_t dy_next;
};

/* Columns of dy in a group: a row begins with 1 to as many, so that what is left are groups. */
enum { COLUMNS = 8, COLUMNS_BY_2 = 4 };

/* In this order in assembly. */
struct taps {
    int32_t samples;
    int32_t groups;   /* behind the first columns, times 2, and 1 where of the last two columns of x but one is padding */
    int32_t row_next; /* from behind a row of x to the next that is met */
    int32_t first;    /* columns that the first ones are short of a group */
    struct tap_row rows[KERNEL + 1];
};

/* Totals of the sums of each row. */
typedef void sum_taps_f32(const struct taps *taps, const float *x, const float *dy,
                          float totals[TAPS]);

sum_taps_f32 poet_conv2d_depthwise_5x5_taps_f32;
sum_taps_f32 poet_conv2d_depthwise_5x5_by_2_taps_f32;

/* Columns that a strip loads, and instructions in its table. */
enum {
    LOADED = STRIP + 4,
    LOADS = 10,
    LOADED_BY_2 = 2 * STRIP + 3,
    LOADS_BY_2 = 12,
    LOADED_WIDE = STRIP + 2,
    LOADS_WIDE = 7
};

static int32_t least(int32_t one, int32_t other)
{
    return one < other ? one : other;
}

/* The instruction that loads so many columns from `first` on, of which those before 0 and behind the last are padding. */
static uint32_t load_of(int32_t first, int32_t columns, int32_t loads, int32_t sources)
{
    const int32_t missing = columns - least(columns, sources - first);
    const int32_t load = (first < 0 ? columns + first : loads) - 1 - missing;
    return (uint32_t)(6 * load) + 1u;
}

/* As poet_are_finite, which takes more than twice as long. */
static bool are_finite(const struct poet_conv2d *op, const float *weight)
{
    float sum = 0.0f;
    for (int32_t row = 0; row < KERNEL * op->groups; row++) {
        EACH_ROW
        for (int32_t tap = 0; tap < KERNEL; tap++) {
            sum += *weight++;
        }
    }
    return 0.0f * sum == 0.0f;
}

/* A plane whose source has these extents: strips of which the last may make results again. One that would begin with a single
 * column of padding begins with none. */
static void sum_strips(struct strip *strip, sum_strip_f32 *sum, int32_t stride, int32_t width,
                       int32_t results, const float *source, const float *weight, float *result)
{
    for (int32_t at = 0; at < results; at += STRIP) {
        if (at > results - STRIP && results >= STRIP) {
            at = results - STRIP;
        }
        if (stride * at == 1) {
            at++;
        }
        const int32_t first = stride * at - 2;
        strip->columns = least(STRIP, results - at);
        strip->load = stride > 1 ? load_of(first, LOADED_BY_2, LOADS_BY_2, width)
                                : load_of(first, LOADED, LOADS, width);
        sum(strip, first < 0 ? source : source + first, weight, result + at);
    }
}

static void sum_forward(const struct poet_conv2d *op, sum_strip_f32 *sum, int32_t stride,
                        const float *x, const float *w, const float *b, float *y)
{
    if (!are_finite(op, w)) {
        poet_conv2d_forward_f32(op, x, w, b, y);
        return;
    }
    const int32_t x_plane = op->in_height * op->in_width;
    const int32_t y_plane = op->out_height * op->out_width;
    struct strip strip = {
        .source_next = op->in_width,
        .result_next = op->out_width,
        .sources = op->in_height,
        .samples = op->batch,
        .source_sample = (op->groups - 1) * x_plane,
        .result_sample = (op->groups - 1) * y_plane,
    };
    for (int32_t channel = 0; channel < op->groups; channel++) {
        strip.shift = b != NULL ? 0.0f + b[channel] : 0.0f;
        sum_strips(&strip, sum, stride, op->in_width, op->out_width, x, w, y);
        x += x_plane;
        w += TAPS;
        y += y_plane;
    }
}

void poet_conv2d_depthwise_5x5_forward_f32(const struct poet_conv2d *op, const float *x,
                                           const float *w, const float *b, float *y)
{
    sum_forward(op, poet_conv2d_depthwise_5x5_strip_f32, 1, x, w, b, y);
}

void poet_conv2d_depthwise_5x5_by_2_forward_f32(const struct poet_conv2d *op, const float *x,
                                                const float *w, const float *b, float *y)
{
    sum_forward(op, poet_conv2d_depthwise_5x5_by_2_strip_f32, 2, x, w, b, y);
}

/* From the last row of a plane up. */
void poet_conv2d_depthwise_5x5_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                  const float *dy, float *dx)
{
    if (!are_finite(op, w)) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t width = op->in_width;
    const int32_t plane = op->in_height * width;
    struct strip strip = {
        .source_next = -width,
        .result_next = -width,
        .sources = op->in_height,
        .samples = op->batch,
        .source_sample = (op->groups + 1) * plane,
        .result_sample = (op->groups + 1) * plane,
    };
    for (int32_t channel = 0; channel < op->groups; channel++) {
        dy += plane;
        dx += plane;
        sum_strips(&strip, poet_conv2d_depthwise_5x5_strip_backwards_f32, 1, width, width,
                   dy - width, w, dx - width);
        w += TAPS;
    }
}

/* The same; strips begin with an even column. */
static void sum_wide_strips(const struct poet_conv2d *op, struct strip *strip, const float *dy,
                            const float *weight, float *dx)
{
    const int32_t width = op->in_width;
    for (int32_t at = 0; at < width; at += WIDE) {
        if (at > width - WIDE && width >= WIDE) {
            at = width - WIDE + width % 2;
        }
        const int32_t first = at / 2 - 1;
        strip->columns = least(WIDE, width - at);
        strip->load = load_of(first, LOADED_WIDE, LOADS_WIDE, op->out_width);
        poet_conv2d_depthwise_5x5_by_2_wide_strip_f32(strip, first < 0 ? dy : dy + first, weight,
                                                      dx + at);
    }
}

void poet_conv2d_depthwise_5x5_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                       const float *dy, float *dx)
{
    if (!are_finite(op, w)) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const bool odd = op->in_height % 2 != 0;
    const int32_t rows = op->out_height;
    const int32_t width = op->in_width;
    const int32_t last_even_row = 2 * (rows - 1) * width;
    const int32_t dx_plane = op->in_height * width;
    const int32_t dy_plane = rows * op->out_width;
    struct strip strip = {
        .source_next = -op->out_width,
        .result_next = -2 * width,
        .sources = rows,
        .samples = op->batch,
        .source_sample = (op->groups + 1) * dy_plane,
        .result_sample =
            op->groups * dx_plane + last_even_row + (op->in_height > 1 ? width : 2 * width),
        .again_result = 2 * rows * width + (odd ? -width : width),
        .again = op->in_height == 1 ? -1 : odd ? 1 : 0,
    };
    for (int32_t channel = 0; channel < op->groups; channel++) {
        dy += dy_plane;
        sum_wide_strips(op, &strip, dy - op->out_width, w, dx + last_even_row);
        w += TAPS;
        dx += dx_plane;
    }
}

/* Gradients that a zero may have made NaN are taken again without it. */
static void sum_again(const struct poet_conv2d *op, const float *x, const float *dy,
                      float totals[TAPS])
{
    for (int32_t tap = 0; tap < KERNEL; tap++) {
        const struct poet_positions rows = poet_positions_of_tap(
            tap, op->stride_height, 2, op->in_height, op->out_height);
        poet_conv2d_sum_taps_again_f32(op, &rows, x, dy, totals + KERNEL * tap);
    }
}

INLINE void sum_weights(const struct poet_conv2d *op, sum_taps_f32 *sum, int32_t stride,
                        const float *x, const float *dy, const struct poet_gradient_sink *dw)
{
    const int32_t x_plane = op->in_height * op->in_width;
    const int32_t dy_plane = op->out_height * op->out_width;
    const int32_t columns = stride > 1 ? COLUMNS_BY_2 : COLUMNS;
    const int32_t groups = (op->out_width - 1) / columns;
    struct taps taps = {
        .samples = op->batch,
        .groups = 2 * groups + (stride > 1 && op->in_width % 2 == 0 ? 1 : 0),
        .row_next = (stride - 1) * op->in_width,
        .first = columns * (groups + 1) - op->out_width,
    };
    EACH_ROW
    for (int32_t row = 0; row < KERNEL; row++) {
        const int32_t above = 2 - row; /* rows of padding that it meets */
        const int32_t first = above > 0 ? (above + stride - 1) / stride : 0;
        const int32_t end = least((above + op->in_height + stride - 1) / stride, op->out_height);
        const int32_t rows = end > first ? end - first : 0;
        taps.rows[row] = (struct tap_row){
            .x = (stride * first - above) * op->in_width,
            .dy = first * op->out_width,
            .rows = rows,
            .x_next = op->groups * x_plane - stride * rows * op->in_width,
            .dy_next = op->groups * dy_plane - rows * op->out_width,
        };
    }
    taps.rows[KERNEL].rows = -1;
    for (int32_t channel = 0; channel < op->groups; channel++) {
        float totals[TAPS];
        float *to = dw->gradient != NULL ? dw->gradient + TAPS * channel : totals;
        sum(&taps, x + channel * x_plane, dy + channel * dy_plane, to);
        if (0.0f * to[TAPS / 2] != 0.0f) { /* the middle has met all of dy: it is not finite where dy is not */
            sum_again(op, x + channel * x_plane, dy + channel * dy_plane, to);
        }
        if (dw->gradient == NULL) {
            poet_gradient_sink_put_run_f32(dw, TAPS * channel, TAPS, totals);
        }
    }
}

void poet_conv2d_depthwise_5x5_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                   const float *dy, float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_weights(op, poet_conv2d_depthwise_5x5_taps_f32, 1, x, dy, &sink);
}

void poet_conv2d_depthwise_5x5_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_weights(op, poet_conv2d_depthwise_5x5_taps_f32, 1, x, dy, &sink);
}

void poet_conv2d_depthwise_5x5_by_2_backward_weight_f32(const struct poet_conv2d *op,
                                                        const float *x, const float *dy, float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_weights(op, poet_conv2d_depthwise_5x5_by_2_taps_f32, 2, x, dy, &sink);
}

void poet_conv2d_depthwise_5x5_by_2_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_weights(op, poet_conv2d_depthwise_5x5_by_2_taps_f32, 2, x, dy, &sink);
}

#else

void poet_conv2d_depthwise_5x5_forward_f32(const struct poet_conv2d *op, const float *x,
                                           const float *w, const float *b, float *y)
{
    poet_conv2d_forward_f32(op, x, w, b, y);
}

void poet_conv2d_depthwise_5x5_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                  const float *dy, float *dx)
{
    poet_conv2d_backward_input_f32(op, w, dy, dx);
}

void poet_conv2d_depthwise_5x5_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                   const float *dy, float *dw)
{
    poet_conv2d_backward_weight_f32(op, x, dy, dw);
}

void poet_conv2d_depthwise_5x5_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
}

void poet_conv2d_depthwise_5x5_by_2_forward_f32(const struct poet_conv2d *op, const float *x,
                                                const float *w, const float *b, float *y)
{
    poet_conv2d_forward_f32(op, x, w, b, y);
}

void poet_conv2d_depthwise_5x5_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                       const float *dy, float *dx)
{
    poet_conv2d_backward_input_f32(op, w, dy, dx);
}

void poet_conv2d_depthwise_5x5_by_2_backward_weight_f32(const struct poet_conv2d *op,
                                                        const float *x, const float *dy, float *dw)
{
    poet_conv2d_backward_weight_f32(op, x, dy, dw);
}

void poet_conv2d_depthwise_5x5_by_2_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
}

#endif
