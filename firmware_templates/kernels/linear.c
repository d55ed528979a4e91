/* SPDX-License-Identifier: Apache-2.0 */
#include "linear.h"

#include <stdbool.h>
#include <stddef.h>

#include "dot.h"
#include "panel.h"

/* Products are summed this many at a time and the sums added up: rounding errors stay small. */
enum { RUN = 32 };

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))

/* The dot products of a with 4, 2 or 1 consecutive rows of b: each element of a is loaded once for all. */
INLINE void dots(const float *a, const float *b, int32_t count, int32_t rows, float *totals)
{
    const float *b1 = b + count;
    const float *b2 = b1 + count;
    const float *b3 = b2 + count;
    float total0 = 0.0f, total1 = 0.0f, total2 = 0.0f, total3 = 0.0f;
    for (int32_t left = count; left > 0; left -= RUN) {
        const float *end = a + (left < RUN ? left : RUN);
        float sum0 = 0.0f, sum1 = 0.0f, sum2 = 0.0f, sum3 = 0.0f;
        do {
            const float value = *a++;
            sum0 += value * *b++;
            if (rows > 1) {
                sum1 += value * *b1++;
            }
            if (rows > 2) {
                sum2 += value * *b2++;
                sum3 += value * *b3++;
            }
        } while (a != end);
        total0 += sum0;
        total1 += sum1;
        total2 += sum2;
        total3 += sum3;
    }
    totals[0] = total0;
    if (rows > 1) {
        totals[1] = total1;
    }
    if (rows > 2) {
        totals[2] = total2;
        totals[3] = total3;
    }
}

static float dot(const float *a, const float *b, int32_t count)
{
    const struct poet_dot dot = {
        .outer = {1, 0, 0}, .middle = {1, 0, 0}, .inner = {count, 1, 1}};
    return poet_dot_f32(&dot, RUN, a, b);
}

#if POET_HAS_VECTORS

/* Results of which lanes are samples, rows are outputs, and k are features; a last run is filled up with zeros. */
struct by_sample {
    const struct poet_linear *op;
    const float *x;
    const float *w;
    const float *b;
    float *y;
};

static void pack_samples(const void *context, int32_t lane, int32_t lanes, int32_t k, int32_t count,
                         int32_t *places, float (*panel)[POET_LANES])
{
    const struct by_sample *by = context;
    const int32_t features = by->op->in_features;
    for (int32_t i = 0; i < count; i++) {
        const bool is_there = k + i < features;
        places[i] = is_there ? k + i : 0;
        for (int32_t j = 0; j < POET_LANES; j++) {
            panel[i][j] = is_there && j < lanes ? by->x[(lane + j) * features + k + i] : 0.0f;
        }
    }
}

static void put_samples(void *context, int32_t row, int32_t rows, int32_t lane, int32_t lanes,
                        const float *sums, int32_t next)
{
    const struct by_sample *by = context;
    const int32_t features = by->op->in_features;
    for (int32_t n = lane; n < lane + lanes; n++) {
        for (int32_t o = row; o < row + rows; o++) {
            float sum = sums[(o - row) * next + n - lane];
            if (sum != sum) {
                sum = dot(by->x + n * features, by->w + o * features, features);
            }
            by->y[n * by->op->out_features + o] = by->b != NULL ? sum + by->b[o] : sum;
        }
    }
}

static void sum_samples(const struct poet_linear *op, const float *x, const float *w, const float *b,
                        float *y)
{
    struct by_sample by = {op, x, w, b, y};
    const struct poet_panel panel = {
        .rows = op->out_features,
        .lanes = op->batch,
        .units = (op->in_features + RUN - 1) / RUN,
        .taps = op->in_features < RUN ? op->in_features : RUN,
        .factors = w,
        .row_next = op->in_features,
        .op = &by,
        .pack = pack_samples,
        .put = put_samples,
    };
    poet_panel_sum_f32(&panel);
}

/* Results of which lanes are features, and k are the rows of a matrix. */
struct by_feature {
    const float *rows;
    int32_t width;
    int32_t step; /* factors from k to k + 1 */
    const struct poet_gradient_sink *result;
};

static void pack_features(const void *context, int32_t lane, int32_t lanes, int32_t k, int32_t count,
                          int32_t *places, float (*panel)[POET_LANES])
{
    const struct by_feature *by = context;
    for (int32_t i = 0; i < count; i++) {
        const float *row = by->rows + (k + i) * by->width + lane;
        places[i] = (k + i) * by->step;
        for (int32_t j = 0; j < POET_LANES; j++) {
            panel[i][j] = j < lanes ? row[j] : 0.0f;
        }
    }
}

static void put_features(void *context, int32_t row, int32_t rows, int32_t lane, int32_t lanes,
                         const float *sums, int32_t next)
{
    const struct by_feature *by = context;
    for (int32_t i = 0; i < rows; i++) {
        poet_gradient_sink_put_run_f32(by->result, (row + i) * by->width + lane, lanes,
                                       sums + i * next);
    }
}

/* result[i][f] = sum over k of factors[i * next + k * step] * rows[k][f] */
static void sum_features(const float *factors, int32_t results, int32_t next, int32_t step,
                         const float *rows, int32_t count, int32_t width,
                         const struct poet_gradient_sink *result)
{
    struct by_feature by = {rows, width, step, result};
    const struct poet_panel panel = {
        .rows = results,
        .lanes = width,
        .units = 1,
        .taps = count,
        .factors = factors,
        .row_next = next,
        .op = &by,
        .pack = pack_features,
        .put = put_features,
    };
    poet_panel_sum_f32(&panel);
}

#endif

void poet_linear_forward_f32(const struct poet_linear *op, const float *x, const float *w,
                             const float *b, float *y)
{
    const int32_t features = op->in_features;
#if POET_HAS_VECTORS
    if (op->batch >= 4) { /* or most lanes would be idle */
        sum_samples(op, x, w, b, y);
        return;
    }
#endif
    for (int32_t n = 0; n < op->batch; n++) {
        const float *row = w;
        int32_t o = 0;
        for (; !POET_HAS_FPU && o < op->out_features; o++) {
            y[o] = dot(x, row, features);
            row += features;
        }
        for (; o + 4 <= op->out_features; o += 4) {
            dots(x, row, features, 4, y + o);
            row += 4 * features;
        }
        if (o + 2 <= op->out_features) {
            dots(x, row, features, 2, y + o);
            row += 2 * features;
            o += 2;
        }
        if (o < op->out_features) {
            dots(x, row, features, 1, y + o);
        }
        if (b != NULL) {
            for (o = 0; o < op->out_features; o++) {
                y[o] += b[o];
            }
        }
        x += features;
        y += op->out_features;
    }
}

/* Sums of 16, 4 or 1 columns. */
struct columns {
    float of[16];
};

static const struct columns no_sums = {{0.0f}};

INLINE void add_4(float sums[4], float factor, const float *row)
{
    sums[0] += factor * row[0];
    sums[1] += factor * row[1];
    sums[2] += factor * row[2];
    sums[3] += factor * row[3];
}

INLINE void put_4(float *result, const float sums[4])
{
    result[0] = sums[0];
    result[1] = sums[1];
    result[2] = sums[2];
    result[3] = sums[3];
}

/* result[i] = sum over k of factors[k * step] * rows[k * width + i], for 16, 4 or 1 columns i */
INLINE void combine(const float *factors, int32_t step, const float *rows, int32_t count,
                    int32_t width, int32_t columns, float *result)
{
    struct columns sum = no_sums;
    for (; count > 0; count--) {
        const float factor = *factors;
        if (columns == 1) {
            sum.of[0] += factor * *rows;
        } else {
            add_4(sum.of, factor, rows);
        }
        if (columns == 16) {
            add_4(sum.of + 4, factor, rows + 4);
            add_4(sum.of + 8, factor, rows + 8);
            add_4(sum.of + 12, factor, rows + 12);
        }
        factors += step;
        rows += width;
    }
    if (columns == 1) {
        result[0] = sum.of[0];
    } else {
        put_4(result, sum.of);
    }
    if (columns == 16) {
        put_4(result + 4, sum.of + 4);
        put_4(result + 8, sum.of + 8);
        put_4(result + 12, sum.of + 12);
    }
}

/* result[first + f] = sum over k of factors[k * step] * rows[k][f], for rows of `width` elements */
static void combine_rows(const float *factors, int32_t step, const float *rows, int32_t count,
                         int32_t width, const struct poet_gradient_sink *result, int32_t first)
{
    float sums[16];
    int32_t columns = 0;
    if (!POET_HAS_FPU) {
        const struct poet_dot dot = {
            .outer = {1, 0, 0}, .middle = {1, 0, 0}, .inner = {count, step, width}};
        for (int32_t i = 0; i < width; i++) {
            const float sum = count == 1 ? 0.0f + *factors * rows[i] /* as there, but at once */
                                         : poet_dot_f32(&dot, count, factors, rows + i);
            poet_gradient_sink_put_f32(result, first + i, sum);
        }
        return;
    }
    for (int32_t left = width; left > 0; left -= columns) {
        float *to = result->gradient != NULL ? result->gradient + first : sums;
        if (left >= 16) {
            columns = 16;
            combine(factors, step, rows, count, width, 16, to);
        } else if (left >= 4) {
            columns = 4;
            combine(factors, step, rows, count, width, 4, to);
        } else {
            columns = 1;
            combine(factors, step, rows, count, width, 1, to);
        }
        for (int32_t i = 0; result->gradient == NULL && i < columns; i++) {
            poet_gradient_sink_put_f32(result, first + i, sums[i]);
        }
        rows += columns;
        first += columns;
    }
}

void poet_linear_backward_input_f32(const struct poet_linear *op, const float *w, const float *dy,
                                    float *dx)
{
    const struct poet_gradient_sink sink = {.gradient = dx};
#if POET_HAS_VECTORS
    sum_features(dy, op->batch, op->out_features, 1, w, op->out_features, op->in_features,
                 &sink);
    return;
#endif
    for (int32_t n = 0; n < op->batch; n++) {
        combine_rows(dy + n * op->out_features, 1, w, op->out_features, op->in_features, &sink,
                     n * op->in_features);
    }
}

static void combine_samples(const struct poet_linear *op, const float *x, const float *dy,
                            const struct poet_gradient_sink *dw)
{
#if POET_HAS_VECTORS
    sum_features(dy, op->out_features, 1, op->out_features, x, op->batch, op->in_features, dw);
    return;
#endif
    for (int32_t o = 0; o < op->out_features; o++) {
        combine_rows(dy + o, op->out_features, x, op->batch, op->in_features, dw,
                     o * op->in_features);
    }
}

void poet_linear_backward_weight_f32(const struct poet_linear *op, const float *x, const float *dy,
                                     float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    combine_samples(op, x, dy, &sink);
}

void poet_linear_backward_weight_update_f32(const struct poet_linear *op, const float *x,
                                            const float *dy, const struct poet_update *update,
                                            const float *pace, float *w, float *first,
                                            float *second, float *sum)
{
    const struct poet_gradient_sink sink = {
        .update = update, .pace = pace, .parameter = w, .first = first, .second = second,
        .sum = sum};
    combine_samples(op, x, dy, &sink);
}

void poet_linear_backward_bias_f32(const struct poet_linear_bias *op, const float *dy, float *db)
{
    for (int32_t o = 0; o < op->out_features; o++) {
        const float *value = dy + o;
        float sum = 0.0f;
        for (int32_t n = 0; n < op->batch; n++) {
            sum += *value;
            value += op->out_features;
        }
        db[o] = sum;
    }
}
