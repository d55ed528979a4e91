/* SPDX-License-Identifier: Apache-2.0 */
#include "linear.h"

#include <stddef.h>

#include "gradient_sink.h"

/* Products are summed this many at a time and the sums added up: rounding errors stay small. */
enum { RUN = 32 };

static float dot(const float *a, const float *b, int32_t count)
{
    float total = 0.0f;
    for (int32_t first = 0; first < count; first += RUN) {
        const int32_t end = count - first < RUN ? count : first + RUN;
        float sum = 0.0f;
        for (int32_t i = first; i < end; i++) {
            sum += a[i] * b[i];
        }
        total += sum;
    }
    return total;
}

/* The dot products of a with four consecutive rows of b: each element of a is loaded once. */
static void dot_4(const float *a, const float *b, int32_t count, float totals[4])
{
    const float *b1 = b + count;
    const float *b2 = b1 + count;
    const float *b3 = b2 + count;
    float total0 = 0.0f;
    float total1 = 0.0f;
    float total2 = 0.0f;
    float total3 = 0.0f;
    for (int32_t first = 0; first < count; first += RUN) {
        const int32_t end = count - first < RUN ? count : first + RUN;
        float sum0 = 0.0f;
        float sum1 = 0.0f;
        float sum2 = 0.0f;
        float sum3 = 0.0f;
        for (int32_t i = first; i < end; i++) {
            const float value = a[i];
            sum0 += value * b[i];
            sum1 += value * b1[i];
            sum2 += value * b2[i];
            sum3 += value * b3[i];
        }
        total0 += sum0;
        total1 += sum1;
        total2 += sum2;
        total3 += sum3;
    }
    totals[0] = total0;
    totals[1] = total1;
    totals[2] = total2;
    totals[3] = total3;
}

void poet_linear_forward_f32(const struct poet_linear *op, const float *x, const float *w,
                             const float *b, float *y)
{
    for (int32_t n = 0; n < op->batch; n++) {
        const float *row = w;
        int32_t o = 0;
        for (; o + 4 <= op->out_features; o += 4) {
            dot_4(x, row, op->in_features, y + o);
            row += 4 * op->in_features;
        }
        for (; o < op->out_features; o++) {
            y[o] = dot(x, row, op->in_features);
            row += op->in_features;
        }
        if (b != NULL) {
            for (o = 0; o < op->out_features; o++) {
                y[o] += b[o];
            }
        }
        x += op->in_features;
        y += op->out_features;
    }
}

/* result[first + f] = sum over k of factors[k * step] * rows[k][f], for rows of `width` elements */
static void combine_rows(const float *factors, int32_t step, const float *rows, int32_t count,
                         int32_t width, const struct poet_gradient_sink *result, int32_t first)
{
    int32_t f = 0;
    for (; f + 4 <= width; f += 4) {
        const float *factor = factors;
        const float *row = rows + f;
        float sum0 = 0.0f;
        float sum1 = 0.0f;
        float sum2 = 0.0f;
        float sum3 = 0.0f;
        for (int32_t k = 0; k < count; k++) {
            const float value = *factor;
            sum0 += value * row[0];
            sum1 += value * row[1];
            sum2 += value * row[2];
            sum3 += value * row[3];
            factor += step;
            row += width;
        }
        poet_gradient_sink_put_f32(result, first + f, sum0);
        poet_gradient_sink_put_f32(result, first + f + 1, sum1);
        poet_gradient_sink_put_f32(result, first + f + 2, sum2);
        poet_gradient_sink_put_f32(result, first + f + 3, sum3);
    }
    for (; f < width; f++) {
        const float *factor = factors;
        const float *row = rows + f;
        float sum = 0.0f;
        for (int32_t k = 0; k < count; k++) {
            sum += *factor * *row;
            factor += step;
            row += width;
        }
        poet_gradient_sink_put_f32(result, first + f, sum);
    }
}

void poet_linear_backward_input_f32(const struct poet_linear *op, const float *w, const float *dy,
                                    float *dx)
{
    const struct poet_gradient_sink sink = {.gradient = dx};
    for (int32_t n = 0; n < op->batch; n++) {
        combine_rows(dy + n * op->out_features, 1, w, op->out_features, op->in_features, &sink,
                     n * op->in_features);
    }
}

static void combine_samples(const struct poet_linear *op, const float *x, const float *dy,
                            const struct poet_gradient_sink *dw)
{
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

void poet_linear_backward_weight_sgd_f32(const struct poet_linear_sgd *op, const float *x,
                                         const float *dy, float *w, float *momentum)
{
    const struct poet_gradient_sink sink = {
        .sgd = &op->sgd, .parameter = w, .momentum = momentum};
    combine_samples(&op->linear, x, dy, &sink);
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
