/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_depthwise_by_2.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_column.h"
#include "conv2d_depthwise_each.h"
#include "conv2d_depthwise_taps.h"

/* As conv2d_depthwise.c, for 3x3 kernels with stride 2, with 0 or 1 rows and columns of padding on each side. Other cores
 * take what conv2d.c has for all shapes. */

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* Columns of results that go down a plane together: forward, and of dX. */
enum { STRIP = 4, WIDE = 2 * STRIP };

/* A strip in all planes, or in two samples at a time. In this order in assembly. What is next counts elements. */
struct strips {
    int32_t source_next; /* to the next row */
    int32_t result_next;
    int32_t source_other; /* to the second sample */
    int32_t result_other;
    int32_t columns; /* of results that are stored */
    uint32_t load;   /* where in a table the instruction is that loads a row */
    int32_t before;  /* rows of padding */
    int32_t rows;    /* of the source, without one that no result meets */
    int32_t source_plane; /* from behind a plane's last row to the next plane's first */
    int32_t result_plane;
    int32_t bias_next;
    int32_t channels;
    int32_t turns; /* samples, or pairs of them */
    const float *bias;
};

/* `source` is the first column of the first row that the strip meets and that is no padding. */
typedef void sum_strips_f32(const struct strips *strips, const float *source, const float *weight,
                            float *result);

sum_strips_f32 poet_conv2d_depthwise_by_2_strips_f32;
sum_strips_f32 poet_conv2d_depthwise_by_2_pair_strips_f32; /* two columns of two samples */

/* For dX, a strip in all planes. In this order in assembly. What is next counts elements. */
struct wide_strips {
    int32_t source_next; /* to the next row */
    int32_t result_next;
    int32_t columns; /* of results that are stored */
    uint32_t load;   /* where in a table the instruction is that loads a row */
    int32_t before;  /* rows of padding */
    int32_t sources; /* rows */
    int32_t results;
    int32_t source_plane; /* from the last row but for one of padding to the next plane's first */
    int32_t channels;
    int32_t samples;
};

/* `source` is the first column that the strip meets and that is no padding. */
typedef void sum_wide_strips_f32(const struct wide_strips *strips, const float *source,
                                 const float *weight, float *result);

sum_wide_strips_f32 poet_conv2d_depthwise_by_2_wide_strips_f32;     /* without padding before the first column */
sum_wide_strips_f32 poet_conv2d_depthwise_by_2_wide_odd_strips_f32; /* with a column of padding */
sum_wide_strips_f32 poet_conv2d_depthwise_by_2_narrow_strips_f32;   /* the same, from two columns to three or four */

/* Rows of dy that meet the same rows of the kernel, three rows of x each. In this order in assembly. */
struct run {
    int32_t x[3]; /* elements of x before the first one's */
    int32_t count;
    int32_t pairs; /* of columns of dy whose taps are no padding, but for the first of all */
    uint32_t edges;
    int32_t next; /* from behind a row of x to the next one of the same row of the kernel */
};

/* The first and the last row, what is between, and a run of none. */
enum { RUNS = 4 };

/* Bits 0 to 2 for each row of x that is no padding; another lies in its place, to no effect. */
#define EDGE_SINGLE 0x08u /* a column of dy behind the pairs */
#define EDGE_AFTER 0x10u  /* one whose last tap is padding */
#define EDGE_BEFORE 0x20u /* a column of padding */

poet_add_taps_f32 poet_conv2d_depthwise_by_2_taps_f32;

static int32_t least(int32_t one, int32_t other)
{
    return one < other ? one : other;
}

/* Which instruction of a table loads columns from `first` on, of which those before 0 and behind the last are padding: it has those
 * that load columns 0 to `whole` and more, then columns 1 to `padded` and more. No row that comes here has fewer. */
static int32_t load_of(int32_t first, int32_t columns, int32_t sources, int32_t whole, int32_t padded)
{
    const int32_t last = least(columns, sources - first) - 1;
    return first < 0 ? columns - whole + last - padded : last - whole;
}

/* Where it is in a table of such. */
static uint32_t place(int32_t load, int32_t bytes)
{
    return (uint32_t)(bytes * load) + 1u;
}

/* Strips of which the last may make results again. */
static void sum_strips(const struct poet_conv2d *op, struct strips *strips, const float *x,
                       const float *w, float *y)
{
    strips->columns = least(STRIP, op->out_width);
    for (int32_t at = 0; at < op->out_width; at += STRIP) {
        at = least(at, op->out_width - strips->columns);
        const int32_t first = 2 * at - op->padding_left;
        strips->load = place(load_of(first, 2 * STRIP + 1, op->in_width, 1, 1), 6);
        poet_conv2d_depthwise_by_2_strips_f32(strips, first < 0 ? x : x + first, w, y + at);
    }
}

/* Two samples at a time; results are half a strip wide. */
static void sum_pairs(const struct poet_conv2d *op, struct strips *strips, const float *x,
                      const float *w, float *y)
{
    strips->turns = op->batch / 2;
    strips->source_other = op->groups * op->in_height * op->in_width;
    strips->result_other = op->groups * op->out_height * op->out_width;
    strips->load = place(load_of(-op->padding_left, STRIP + 1, op->in_width, 3, 3), 14);
    poet_conv2d_depthwise_by_2_pair_strips_f32(strips, x, w, y);
}

void poet_conv2d_depthwise_by_2_forward_f32(const struct poet_conv2d *op, const float *x,
                                            const float *w, const float *b, float *y)
{
    static const float no_bias = 0.0f;
    if (!poet_kernels_are_finite(w, op->groups)) {
        poet_conv2d_depthwise_each_forward_f32(op, x, w, b, y);
        return;
    }
    const int32_t rows = least(op->in_height, 2 * op->out_height + 1 - op->padding_top);
    struct strips strips = {
        .source_next = op->in_width,
        .result_next = op->out_width,
        .before = op->padding_top,
        .rows = rows,
        .source_plane = (op->in_height - rows) * op->in_width,
        .bias_next = b != NULL ? 1 : 0,
        .channels = op->groups,
        .turns = op->batch,
        .bias = b != NULL ? b : &no_bias,
    };
    if (op->out_width == STRIP / 2 && op->batch > 1) {
        sum_pairs(op, &strips, x, w, y);
        const int32_t last = op->batch & ~1;
        x += last * op->groups * op->in_height * op->in_width;
        y += last * op->groups * op->out_height * op->out_width;
        strips.turns = op->batch & 1;
    }
    if (strips.turns > 0) {
        sum_strips(op, &strips, x, w, y);
    }
}

/* The same; strips begin with an even column. */
static void sum_wide_strips(const struct poet_conv2d *op, struct wide_strips *strips,
                            const float *dy, const float *w, float *dx)
{
    const int32_t width = op->in_width;
    const bool odd = op->padding_left != 0;
    for (int32_t at = 0; at < width; at += WIDE) {
        if (at > width - WIDE && width >= WIDE) {
            at = width - WIDE + width % 2;
        }
        const int32_t first = odd ? at / 2 : at / 2 - 1;
        strips->columns = least(WIDE, width - at);
        strips->load = place(load_of(first, STRIP + 1, op->out_width, odd ? 0 : 3, 1), 6);
        (odd ? poet_conv2d_depthwise_by_2_wide_odd_strips_f32
             : poet_conv2d_depthwise_by_2_wide_strips_f32)(strips, first < 0 ? dy : dy + first, w,
                                                           dx + at);
    }
}

void poet_conv2d_depthwise_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                   const float *dy, float *dx)
{
    if (!poet_kernels_are_finite(w, op->groups)) {
        poet_conv2d_depthwise_each_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t passed = (op->in_height - 1 + op->padding_top) / 2; /* rows of dy */
    struct wide_strips strips = {
        .source_next = op->out_width,
        .result_next = op->in_width,
        .columns = op->in_width,
        .before = op->padding_top,
        .sources = op->out_height,
        .results = op->in_height,
        .source_plane = (op->out_height - passed) * op->out_width,
        .channels = op->groups,
        .samples = op->batch,
    };
    if (op->out_width == 2 && op->in_width <= 4 && op->padding_left != 0) {
        poet_conv2d_depthwise_by_2_narrow_strips_f32(&strips, dy, w, dx);
    } else {
        sum_wide_strips(op, &strips, dy, w, dx);
    }
}

static void set_runs(const struct poet_conv2d *op, struct run *run)
{
    const bool after = 2 * op->out_width - op->padding_left == op->in_width;
    const int32_t whole = after ? op->out_width - 1 : op->out_width;
    const int32_t met = least(op->in_width, 2 * op->out_width + 1 - op->padding_left);
    int32_t next = 0;
    for (int32_t row = 0; row < op->out_height; row = next) {
        const int32_t first = 2 * row - op->padding_top;
        const int32_t inner = (op->in_height - 1 + op->padding_top) / 2; /* rows whose last tap is in x */
        next = first < 0 || row >= inner ? row + 1 : least(inner, op->out_height);
        *run = (struct run){
            .count = next - row,
            .pairs = whole / 2,
            .edges = (whole % 2 != 0 ? EDGE_SINGLE : 0u) | (after ? EDGE_AFTER : 0u) |
                     (op->padding_left != 0 ? EDGE_BEFORE : 0u),
            .next = 2 * op->in_width - met,
        };
        for (int32_t tap = 0; tap < 3; tap++) {
            const bool inside = first + tap >= 0 && first + tap < op->in_height;
            run->x[tap] = inside ? (first + tap) * op->in_width : 0;
            run->edges |= inside ? 1u << tap : 0u;
        }
        run++;
    }
    run->count = 0;
}

static void sum_taps(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    if (op->out_width <= POET_FEW_COLUMNS) {
        poet_conv2d_depthwise_few_taps_f32(op, poet_conv2d_depthwise_few_columns_by_2_f32, x, dy,
                                           dw);
        return;
    }
    struct run runs[RUNS];
    set_runs(op, runs);
    poet_conv2d_depthwise_put_taps_f32(op, poet_conv2d_depthwise_by_2_taps_f32, runs, x, dy, dw);
}

void poet_conv2d_depthwise_by_2_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                    const float *dy, float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_depthwise_by_2_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_taps(op, x, dy, &sink);
}

#else

void poet_conv2d_depthwise_by_2_forward_f32(const struct poet_conv2d *op, const float *x,
                                            const float *w, const float *b, float *y)
{
    poet_conv2d_forward_f32(op, x, w, b, y);
}

void poet_conv2d_depthwise_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                   const float *dy, float *dx)
{
    poet_conv2d_backward_input_f32(op, w, dy, dx);
}

void poet_conv2d_depthwise_by_2_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                    const float *dy, float *dw)
{
    poet_conv2d_backward_weight_f32(op, x, dy, dw);
}

void poet_conv2d_depthwise_by_2_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
}

#endif
