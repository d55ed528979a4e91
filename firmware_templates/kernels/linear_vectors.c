/* SPDX-License-Identifier: Apache-2.0 */
#include "linear_vectors.h"

#include <stddef.h>

#include "dot.h"
#include "panel.h"

#if POET_HAS_VECTORS

/* Number of products per group of a sum, as in linear.c. */
enum { RUN = 32 };

/* Lanes are samples, rows are outputs, and sums run over features. */
struct by_sample {
    struct poet_panel_matrix samples;
    const struct poet_linear *op;
    const float *w;
    const float *b;
    float *y;
};

static void put_samples(void *context, int32_t row, int32_t rows, int32_t lane, int32_t lanes,
                        const float *sums, int32_t next)
{
    const struct by_sample *by = context;
    const int32_t features = by->op->in_features;
    const struct poet_dot dot = {
        .outer = {1, 0, 0}, .middle = {1, 0, 0}, .inner = {features, 1, 1}};
    for (int32_t n = lane; n < lane + lanes; n++) {
        for (int32_t o = row; o < row + rows; o++) {
            float sum = sums[(o - row) * next + n - lane];
            if (sum != sum) {
                sum = poet_dot_f32(&dot, RUN, by->samples.numbers + n * features, by->w + o * features);
            }
            by->y[n * by->op->out_features + o] = by->b != NULL ? sum + by->b[o] : sum;
        }
    }
}

void poet_linear_vectors_forward_f32(const struct poet_linear *op, const float *x, const float *w,
                                     const float *b, float *y)
{
    struct by_sample by = {{x, op->in_features, 1, op->in_features, 1}, op, w, b, y};
    const struct poet_panel panel = {
        .rows = op->out_features,
        .lanes = op->batch,
        .units = (op->in_features + RUN - 1) / RUN,
        .taps = op->in_features < RUN ? op->in_features : RUN,
        .factors = w,
        .row_next = op->in_features,
        .op = &by,
        .pack = poet_panel_pack_matrix,
        .put = put_samples,
    };
    poet_panel_sum_f32(&panel);
}

/* Lanes are features. */
struct by_feature {
    struct poet_panel_matrix features;
    const struct poet_gradient_sink *result;
};

static void put_features(void *context, int32_t row, int32_t rows, int32_t lane, int32_t lanes,
                         const float *sums, int32_t next)
{
    const struct by_feature *by = context;
    for (int32_t i = 0; i < rows; i++) {
        poet_gradient_sink_put_run_f32(by->result, (row + i) * by->features.k_next + lane, lanes,
                                       sums + i * next);
    }
}

/* result[i][f] = sum over k < count of factors[i * next + k * step] * numbers[k][f], with rows of `width` */
static void sum_features(const float *factors, int32_t results, int32_t next, int32_t step,
                         const float *numbers, int32_t count, int32_t width,
                         const struct poet_gradient_sink *result)
{
    struct by_feature by = {{numbers, count, width, 1, step}, result};
    const struct poet_panel panel = {
        .rows = results,
        .lanes = width,
        .units = 1,
        .taps = count,
        .factors = factors,
        .row_next = next,
        .op = &by,
        .pack = poet_panel_pack_matrix,
        .put = put_features,
    };
    poet_panel_sum_f32(&panel);
}

void poet_linear_vectors_backward_input_f32(const struct poet_linear *op, const float *w,
                                            const float *dy, float *dx)
{
    const struct poet_gradient_sink sink = {.gradient = dx};
    sum_features(dy, op->batch, op->out_features, 1, w, op->out_features, op->in_features, &sink);
}

void poet_linear_vectors_backward_weight_f32(const struct poet_linear *op, const float *x,
                                             const float *dy, const struct poet_gradient_sink *dw)
{
    sum_features(dy, op->out_features, 1, op->out_features, x, op->batch, op->in_features, dw);
}

#endif
