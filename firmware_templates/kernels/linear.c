/* SPDX-License-Identifier: Apache-2.0 */
#include "linear.h"

#include <stddef.h>

#include "burst.h"
#include "dot.h"
#include "linear_vectors.h"
#include "product.h"
#include "shapes.h"

/* Products are summed this many at a time and the sums added up: rounding errors stay small. */
enum { RUN = 32 };

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))
/* Compiled once: what needs fewer registers is not saved those of others. */
#define APART static __attribute__((noinline, unused))
#define UNROLLED _Pragma("GCC unroll 4")

/* The dot products of a with one row of b, or with that and the next: each element of a is loaded once for both. */
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

/* The dot products of x with all rows of w, and the bias. */
INLINE void all_dots(const struct poet_linear *op, const float *x, const float *w, const float *b,
                     float *y)
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

/* The dot products of fewer features than a burst with four rows of w, or with one. */
INLINE void few_dots(const float *x, const float *w, int32_t features, int32_t rows, float *y)
{
    float sum[4] = {0.0f};
    for (int32_t left = features; left > 0; left--) {
        UNROLLED
        for (int32_t i = 0; i < rows; i++) {
            sum[i] = poet_add_product(sum[i], *x, w[i * features]);
        }
        x++;
        w++;
    }
    UNROLLED
    for (int32_t i = 0; i < rows; i++) {
        y[i] = 0.0f + sum[i];
    }
}

APART void few_features(const struct poet_linear *op, const float *x, const float *w,
                        const float *b, float *y)
{
    const int32_t features = op->in_features;
    for (int32_t n = 0; n < op->batch; n++) {
        const float *row = w;
        int32_t o = 0;
        for (; o + 4 <= op->out_features; o += 4) {
            few_dots(x, row, features, 4, y + o);
            row += 4 * features;
        }
        for (; o < op->out_features; o++) {
            few_dots(x, row, features, 1, y + o);
            row += features;
        }
        for (o = 0; b != NULL && o < op->out_features; o++) {
            y[o] += b[o];
        }
        x += features;
        y += op->out_features;
    }
}

void poet_linear_forward_f32(const struct poet_linear *op, const float *x, const float *w,
                             const float *b, float *y)
{
    if (POET_HAS_VECTORS && op->batch >= 4) { /* or most lanes would be idle */
        poet_linear_vectors_forward_f32(op, x, w, b, y);
        return;
    }
    if (POET_LINEAR_FEATURES % POET_BURST != 0 && op->in_features < POET_BURST &&
        op->out_features >= 4) {
        few_features(op, x, w, b, y);
        return;
    }
    for (int32_t n = 0; n < op->batch; n++) {
        all_dots(op, x, w, b, y);
        x += op->in_features;
        y += op->out_features;
    }
}

/* result[i] = sum over `count` k, 1 or more, of factors[k * step] * rows[k * width + i], for 16, 8 or up to 4 columns i */
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

/* results[k][i] = factors[k] * row[i]: 0 is what a sum begins with, and makes 0 of -0. */
APART void scale_row(const float *factors, int32_t count, const float *row, int32_t width,
                     float *results)
{
    for (; count > 0; count--) {
        const float factor = *factors++;
        const float *from = row;
        int32_t left = width;
        for (; left % POET_BURST != 0; left--) {
            *results++ = 0.0f + factor * *from++;
        }
        for (; left > 0; left -= POET_BURST) {
            struct poet_burst at = poet_load_burst(&from);
            POET_EACH_OF_BURST
            for (int i = 0; i < POET_BURST; i++) {
                at.of[i] = 0.0f + factor * at.of[i];
            }
            poet_store_burst(&results, &at);
        }
    }
}

/* result[first + f] = sum over k of factors[k * step] * rows[k][f], for rows of fewer elements than a burst */
APART void combine_few(const float *factors, int32_t step, const float *rows, int32_t count,
                       int32_t width, const struct poet_gradient_sink *result, int32_t first)
{
    int32_t columns = 0;
    for (int32_t left = width; left > 0; left -= columns) {
        float sums[4];
        float *to = result->gradient != NULL ? result->gradient + first : sums;
        columns = left < 4 ? left : 4;
        if (columns == 4) {
            combine(factors, step, rows, count, width, 4, to);
        } else if (columns == 3) {
            combine(factors, step, rows, count, width, 3, to);
        } else if (columns == 2) {
            combine(factors, step, rows, count, width, 2, to);
        } else {
            combine(factors, step, rows, count, width, 1, to);
        }
        for (int32_t i = 0; result->gradient == NULL && i < columns; i++) {
            poet_gradient_sink_put_f32(result, first + i, sums[i]);
        }
        rows += columns;
        first += columns;
    }
}

/* The same for rows of `width` elements. */
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
    int32_t left = width;
    do {
        float *to = result->gradient != NULL ? result->gradient + first : sums;
        if (POET_LINEAR_FEATURES % 16 == 0 || left >= 16) {
            columns = 16;
            combine(factors, step, rows, count, width, 16, to);
        } else if (POET_LINEAR_FEATURES % 8 == 0 || left >= 8) {
            columns = 8;
            combine(factors, step, rows, count, width, 8, to);
        } else if (POET_LINEAR_FEATURES % 4 == 0 || left >= 4) {
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
        left -= columns;
    } while (left > 0);
}

INLINE void combine_all(const float *factors, int32_t step, const float *rows, int32_t count,
                        int32_t width, const struct poet_gradient_sink *result, int32_t first)
{
    if (POET_HAS_FPU && POET_LINEAR_FEATURES % 8 != 0 && width < 8) {
        combine_few(factors, step, rows, count, width, result, first);
    } else {
        combine_rows(factors, step, rows, count, width, result, first);
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
        scale_row(dy, op->batch, w, op->in_features, dx);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dx};
    for (int32_t n = 0; n < op->batch; n++) {
        combine_all(dy + n * op->out_features, 1, w, op->out_features, op->in_features, &sink,
                    n * op->in_features);
    }
}

static void combine_samples(const struct poet_linear *op, const float *x, const float *dy,
                            const struct poet_gradient_sink *dw)
{
    if (POET_HAS_VECTORS) {
        poet_linear_vectors_backward_weight_f32(op, x, dy, dw);
        return;
    }
    if (POET_LINEAR_SUMS == 1 && op->batch == 1 && dw->gradient != NULL) {
        scale_row(dy, op->out_features, x, op->in_features, dw->gradient);
        return;
    }
    for (int32_t o = 0; o < op->out_features; o++) {
        combine_all(dy + o, op->out_features, x, op->batch, op->in_features, dw,
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
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
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
