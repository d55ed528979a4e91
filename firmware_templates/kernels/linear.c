/* SPDX-License-Identifier: Apache-2.0 */
#include "linear.h"

#include <stdbool.h>
#include <stddef.h>

#include "burst.h"
#include "dot.h"
#include "linear_lanes.h"
#include "linear_vectors.h"
#include "product.h"
#include "shapes.h"
#include "unroll.h"

/* Products are summed in groups of this size, then the sums are added: this limits rounding errors. */
enum { RUN = 32 };

enum {
    AT_ONCE = 64, /* maximum number of weights per update */
    HAS_LANES = POET_HAS_FPU && !POET_HAS_VECTORS && POET_LINEAR_FEATURES % 8 != 0,
};

static const float NO_SHIFT = 0.0f;

/* Inlined, as callers pass constants for some arguments. */
#define INLINE static inline __attribute__((always_inline))
/* Not inlined, so that callers that need fewer registers do not save more of them. */
#define APART static __attribute__((noinline, unused))
#define UNROLLED POET_UNROLL(4)

INLINE int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Dot products of a with one row of b or with two: each element of a is loaded once for both. */
INLINE void dots(const float *a, const float *b, int32_t count, int both, float *totals)
{
    const float *first = b;
    const float *second = b + count;
    float total[2] = {0.0f, 0.0f};
    uint32_t left = (uint32_t)count;
    do {
        const uint32_t some = POET_LINEAR_FEATURES % RUN == 0 || left >= RUN ? RUN : left;
        float sum[2] = {0.0f, 0.0f};
        for (uint32_t bursts = some / POET_BURST; bursts != 0u; bursts--) {
            const struct poet_burst at = poet_load_burst(&a);
            const struct poet_burst p = poet_load_burst_too(&first);
            const struct poet_burst q = both ? poet_load_third_burst(&second) : p;
            POET_EACH_OF_BURST
            for (int i = 0; i < POET_BURST; i++) {
                sum[0] = poet_add_product(sum[0], at.of[i], p.of[i]);
                sum[1] = poet_add_product(sum[1], at.of[i], q.of[i]);
            }
        }
        for (uint32_t rest = POET_LINEAR_FEATURES % POET_BURST != 0 ? some % POET_BURST : 0u; rest != 0u;
             rest--) {
            sum[0] = poet_add_product(sum[0], *a, *first++);
            sum[1] = both ? poet_add_product(sum[1], *a, *second++) : 0.0f;
            a++;
        }
        total[0] += sum[0];
        total[1] += sum[1];
        left -= some;
    } while (left != 0u);
    totals[0] = total[0];
    if (both) {
        totals[1] = total[1];
    }
}

static float dot(const float *a, const float *b, int32_t count)
{
    const struct poet_dot dot = {
        .outer = {1, 0, 0}, .middle = {1, 0, 0}, .inner = {count, 1, 1}};
    return poet_dot_f32(&dot, RUN, a, b);
}

/* Dot products of x with all rows of w, plus the bias. */
INLINE void sample_dots(const struct poet_linear *op, const float *x, const float *w,
                        const float *b, float *y)
{
    const int32_t features = op->in_features;
    int32_t left = op->out_features;
    if (!POET_HAS_FPU) {
        for (; left > 0; left--) {
            const float total = dot(x, w, features);
            *y++ = b != NULL ? total + *b++ : total;
            w += features;
        }
        return;
    }
    for (; left >= 2; left -= 2) {
        dots(x, w, features, 1, y);
        if (b != NULL) {
            y[0] += *b++;
            y[1] += *b++;
        }
        w += 2 * features;
        y += 2;
    }
    if (POET_LINEAR_OUTPUTS % 2 != 0 && left > 0) {
        dots(x, w, features, 0, y);
        if (b != NULL) {
            y[0] += *b;
        }
    }
}

static void all_dots(const struct poet_linear *op, const float *x, const float *w, const float *b,
                     float *y)
{
    for (int32_t n = 0; n < op->batch; n++) {
        sample_dots(op, x, w, b, y);
        x += op->in_features;
        y += op->out_features;
    }
}

/* Number of rows that are lanes. With long sums, a single row left over is not, as three would be computed twice. */
INLINE int32_t lanes_of(int32_t rows, int32_t count)
{
    return rows < POET_FEWEST_LANES ? 0 : count >= 8 && (rows & 3) == 1 ? rows - 1 : rows;
}

/* Number of sums computed if these rows are lanes; the maximum if there are none. */
INLINE int32_t made_by(int32_t lanes, int32_t others)
{
    return lanes != 0 ? ((lanes + 3) & ~3) * others : INT32_MAX;
}

/* For few features, or features that leave a partial burst: lanes are rows of w per sample, or samples per row of w. */
APART void forward_by_lanes(const struct poet_linear *op, const float *x, const float *w,
                            const float *b, float *y)
{
    const int32_t features = op->in_features;
    const int32_t outputs = op->out_features;
    const int32_t batch = op->batch;
    const int32_t rows = lanes_of(outputs, features);
    const int32_t samples = lanes_of(batch, features);
    if (samples == 0 || made_by(rows, batch) <= made_by(samples, outputs)) {
        const struct poet_linear_lanes lanes = {rows, features, 1, 1, b != NULL ? b : &NO_SHIFT};
        for (int32_t n = 0; n < batch; n++) {
            if (b != NULL) {
                poet_linear_lanes_f32(&lanes, w, x, y);
            } else {
                poet_linear_lanes_apart_f32(&lanes, w, x, y);
            }
            if (rows < outputs) {
                const struct poet_linear last = {1, features, 1};
                all_dots(&last, x, w + rows * features, b != NULL ? b + rows : NULL, y + rows);
            }
            x += features;
            y += outputs;
        }
        return;
    }
    struct poet_linear_lanes lanes = {samples, features, 1, outputs, &NO_SHIFT};
    for (int32_t o = 0; o < outputs; o++) {
        lanes.shift = b != NULL ? b + o : &NO_SHIFT;
        poet_linear_lanes_apart_f32(&lanes, x, w + o * features, y + o);
    }
    if (samples < batch) {
        const struct poet_linear last = {1, features, outputs};
        all_dots(&last, x + samples * features, w, b, y + samples * outputs);
    }
}

void poet_linear_forward_f32(const struct poet_linear *op, const float *x, const float *w,
                             const float *b, float *y)
{
    if (POET_HAS_VECTORS && op->batch >= 4) { /* otherwise most lanes would be idle */
        poet_linear_vectors_forward_f32(op, x, w, b, y);
        return;
    }
    if (HAS_LANES && op->in_features % POET_BURST != 0 && op->in_features < 2 * POET_BURST &&
        (op->batch >= POET_FEWEST_LANES || op->out_features >= POET_FEWEST_LANES)) {
        forward_by_lanes(op, x, w, b, y);
        return;
    }
    all_dots(op, x, w, b, y);
}

/* result[i] = sum over k < count (1 or more) of factors[k * step] * rows[k * width + i], for 16, 8 or up to 4 columns i */
INLINE void combine(const float *factors, int32_t step, const float *rows, int32_t count,
                    int32_t width, int32_t columns, float *result)
{
    struct poet_burst sum = {{0.0f}};
    struct poet_burst further = {{0.0f}};
    do {
        const float factor = *factors;
        const float *row = rows;
        if (columns >= 8) {
            const struct poet_burst at = poet_load_burst(&row);
            POET_EACH_OF_BURST
            for (int i = 0; i < 8; i++) {
                sum.of[i] += factor * at.of[i];
            }
        } else {
            UNROLLED
            for (int32_t i = 0; i < columns; i++) {
                sum.of[i] += factor * row[i];
            }
        }
        if (columns == 16) {
            const struct poet_burst at = poet_load_burst_too(&row);
            POET_EACH_OF_BURST
            for (int i = 0; i < 8; i++) {
                further.of[i] += factor * at.of[i];
            }
        }
        factors += step;
        rows += width;
    } while (--count != 0);
    if (columns >= 8) {
        poet_store_second_burst(&result, &sum);
    } else {
        UNROLLED
        for (int32_t i = 0; i < columns; i++) {
            result[i] = sum.of[i];
        }
    }
    if (columns == 16) {
        poet_store_third_burst(&result, &further);
    }
}

/* results[row][column] = 0 + factors[row] * numbers[column]: sums begin with 0, so that -0 becomes 0. */
APART void scale(const float *factors, int32_t rows, const float *numbers, int32_t columns,
                 float *results)
{
    const bool are_few = POET_HAS_FPU && POET_LINEAR_FEATURES % 8 != 0 && columns < 8;
    for (; are_few && rows >= POET_BURST; rows -= POET_BURST) { /* a burst of rows at a time */
        const struct poet_burst at = poet_load_burst(&factors);
        for (int32_t column = 0; column < columns; column++) {
            const float number = numbers[column];
            float *result = results + column;
            POET_EACH_OF_BURST
            for (int i = 0; i < POET_BURST; i++) {
                *result = 0.0f + number * at.of[i];
                result += columns;
            }
        }
        results += POET_BURST * columns;
    }
    const uint32_t singles = (uint32_t)columns % POET_BURST;
    const uint32_t bursts = (uint32_t)columns / POET_BURST;
    for (; rows > 0; rows--) {
        const float factor = *factors++;
        const float *from = numbers;
        for (uint32_t left = singles; left != 0u; left--) {
            *results++ = 0.0f + factor * *from++;
        }
        for (uint32_t left = bursts; left != 0u; left--) {
            struct poet_burst at = poet_load_burst(&from);
            POET_EACH_OF_BURST
            for (int i = 0; i < POET_BURST; i++) {
                at.of[i] = 0.0f + factor * at.of[i];
            }
            poet_store_burst(&results, &at);
        }
    }
}

/* Results of dX or dW in contiguous rows: [row][column] is the sum over k of
 * factors[row * factor_row + k * factor_next] * numbers[k * width + column]. */
struct sums {
    int32_t rows;
    int32_t columns;
    int32_t count; /* number of k, 1 or more */
    int32_t factor_row;
    int32_t factor_next;
    int32_t width;
};

/* Columns left over by groups of eight, if the shapes allow any. */
INLINE int32_t few_of(const struct sums *op)
{
    return POET_LINEAR_FEATURES % 8 != 0 ? op->columns & 7 : 0;
}

/* The last few columns: four per row; each of the others for many rows if a sum's factors are contiguous. */
APART void combine_few(const struct sums *op, const float *factors, const float *numbers,
                       float *results)
{
    const int32_t step = op->factor_next;
    const int32_t columns = few_of(op) & 3;
    numbers += op->columns & ~7;
    results += op->columns & ~7;
    if ((few_of(op) & 4) != 0) {
        for (int32_t row = 0; row < op->rows; row++) {
            combine(factors + row * op->factor_row, step, numbers, op->count, op->width, 4,
                    results + row * op->columns);
        }
        numbers += 4;
        results += 4;
    }
    int32_t left = op->rows;
    if (step == 1 && left >= POET_FEWEST_LANES) {
        const int32_t rows = lanes_of(left, op->count);
        const struct poet_linear_lanes lanes = {rows, op->count, op->width, op->columns, &NO_SHIFT};
        for (int32_t i = 0; i < columns; i++) {
            poet_linear_lanes_apart_f32(&lanes, factors, numbers + i, results + i);
        }
        left -= rows;
        if (left == 0) {
            return;
        }
        factors += rows * op->factor_row;
        results += rows * op->columns;
    }
    for (; left > 0; left--) {
        if (columns == 3) {
            combine(factors, step, numbers, op->count, op->width, 3, results);
        } else if (columns == 2) {
            combine(factors, step, numbers, op->count, op->width, 2, results);
        } else if (columns == 1) {
            combine(factors, step, numbers, op->count, op->width, 1, results);
        }
        factors += op->factor_row;
        results += op->columns;
    }
}

/* Columns in groups of sixteen, then of eight. */
APART void combine_many(const struct sums *op, const float *factors, const float *numbers,
                        float *results)
{
    for (int32_t row = 0; row < op->rows; row++) {
        int32_t i = 0;
        for (; i + 16 <= op->columns; i += 16) {
            combine(factors, op->factor_next, numbers + i, op->count, op->width, 16, results + i);
        }
        if (POET_LINEAR_FEATURES % 16 != 0 && i + 8 <= op->columns) {
            combine(factors, op->factor_next, numbers + i, op->count, op->width, 8, results + i);
        }
        factors += op->factor_row;
        results += op->columns;
    }
}

static void sum_rows(const struct sums *op, const float *factors, const float *numbers,
                     float *results)
{
    if (!POET_HAS_FPU) {
        const struct poet_dot dot = {.outer = {1, 0, 0},
                                     .middle = {1, 0, 0},
                                     .inner = {op->count, op->factor_next, op->width}};
        for (int32_t row = 0; row < op->rows; row++) {
            for (int32_t i = 0; i < op->columns; i++) {
                *results++ = poet_dot_f32(&dot, op->count, factors, numbers + i);
            }
            factors += op->factor_row;
        }
        return;
    }
    if (POET_LINEAR_FEATURES % 8 == 0 || op->columns >= 8) {
        combine_many(op, factors, numbers, results);
    }
    if (few_of(op) != 0) {
        combine_few(op, factors, numbers, results);
    }
}

void poet_linear_backward_input_f32(const struct poet_linear *op, const float *w, const float *dy,
                                    float *dx)
{
    if (POET_HAS_VECTORS) {
        poet_linear_vectors_backward_input_f32(op, w, dy, dx);
        return;
    }
    if (POET_LINEAR_SUMS == 1 && op->out_features == 1) {
        scale(dy, op->batch, w, op->in_features, dx);
        return;
    }
    const struct sums sums = {.rows = op->batch,
                              .columns = op->in_features,
                              .count = op->out_features,
                              .factor_row = op->out_features,
                              .factor_next = 1,
                              .width = op->in_features};
    sum_rows(&sums, dy, w, dx);
}

/* dW of some outputs and features; x and dy point to the first of them. */
INLINE void sum_weights(const struct poet_linear *op, const float *x, const float *dy,
                        int32_t outputs, int32_t features, float *dw)
{
    if (POET_LINEAR_SUMS == 1 && op->batch == 1) {
        scale(dy, outputs, x, features, dw);
        return;
    }
    const struct sums sums = {.rows = outputs,
                              .columns = features,
                              .count = op->batch,
                              .factor_row = 1,
                              .factor_next = op->out_features,
                              .width = op->in_features};
    sum_rows(&sums, dy, x, dw);
}

APART void sum_some_weights(const struct poet_linear *op, const float *x, const float *dy,
                            int32_t outputs, int32_t features, float *dw)
{
    sum_weights(op, x, dy, outputs, features, dw);
}

void poet_linear_backward_weight_f32(const struct poet_linear *op, const float *x, const float *dy,
                                     float *dw)
{
    if (POET_HAS_VECTORS) {
        const struct poet_gradient_sink sink = {.gradient = dw};
        poet_linear_vectors_backward_weight_f32(op, x, dy, &sink);
        return;
    }
    sum_weights(op, x, dy, op->out_features, op->in_features, dw);
}

void poet_linear_backward_weight_update_f32(const struct poet_linear *op, const float *x,
                                            const float *dy, const struct poet_update *update,
                                            const float *pace, float *w, float *first,
                                            float *second, float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    if (POET_HAS_VECTORS) {
        poet_linear_vectors_backward_weight_f32(op, x, dy, &sink);
        return;
    }
    float gradient[AT_ONCE];
    const int32_t features = op->in_features;
    const int32_t all = features * op->out_features;
    if (all <= AT_ONCE) {
        sum_some_weights(op, x, dy, op->out_features, features, gradient);
        poet_gradient_sink_put_run_f32(&sink, 0, all, gradient);
        return;
    }
    const int32_t columns = least(features, AT_ONCE);
    const int32_t rows = AT_ONCE / columns;
    for (int32_t o = 0; o < op->out_features; o += rows) {
        for (int32_t f = 0; f < features; f += columns) {
            const int32_t outputs = least(op->out_features - o, rows);
            const int32_t some = least(features - f, columns);
            sum_some_weights(op, x + f, dy + o, outputs, some, gradient);
            poet_gradient_sink_put_run_f32(&sink, o * features + f, outputs * some, gradient);
        }
    }
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
