/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_norm.h"

#include "poet_math.h"

/* Elements are summed in groups of this size, then the sums are added, which limits rounding
 * errors. */
enum { RUN = 32 };

static int32_t length_of(const struct poet_layer_norm *op)
{
    return op->channels * op->inner;
}

static float sum_of(const float *x, int32_t count)
{
    float total = 0.0f;
    while (count > 0) {
        const int32_t run = count < RUN ? count : RUN;
        float sum = 0.0f;
        for (int32_t i = 0; i < run; i++) {
            sum += x[i];
        }
        total += sum;
        x += run;
        count -= run;
    }
    return total;
}

static float sum_of_squares(const float *x, float mean, int32_t count)
{
    float total = 0.0f;
    while (count > 0) {
        const int32_t run = count < RUN ? count : RUN;
        float sum = 0.0f;
        for (int32_t i = 0; i < run; i++) {
            const float centred = x[i] - mean;
            sum += centred * centred;
        }
        total += sum;
        x += run;
        count -= run;
    }
    return total;
}

struct moments {
    float mean;
    float variance;
};

static struct moments moments_of(const struct poet_layer_norm *op, const float *x)
{
    const int32_t length = length_of(op);
    const float mean = sum_of(x, length) / (float)length;
    const struct moments moments = {mean, sum_of_squares(x, mean, length) / (float)length};
    return moments;
}

void poet_layer_norm_statistics_f32(const struct poet_layer_norm *op, const float *x,
                                    float *statistics)
{
    const int32_t rows = op->samples * op->groups;
    for (int32_t row = 0; row < rows; row++) {
        const struct moments moments = moments_of(op, x + row * length_of(op));
        statistics[row] = moments.mean;
        statistics[rows + row] = moments.variance;
    }
}

static void normalize_row(const struct poet_layer_norm *op, int32_t group, struct moments moments,
                          const float *x, const float *affine, float *y)
{
    const float inverse = 1.0f / poet_sqrtf(moments.variance + op->eps);
    const float *scale = affine + group * op->channels;
    const float *shift = scale + op->groups * op->channels;
    for (int32_t c = 0; c < op->channels; c++) {
        for (int32_t i = 0; i < op->inner; i++) {
            *y++ = scale[c] * ((*x++ - moments.mean) * inverse) + shift[c];
        }
    }
}

void poet_layer_norm_normalize_f32(const struct poet_layer_norm *op, const float *x,
                                   const float *statistics, const float *affine, float *y)
{
    const int32_t rows = op->samples * op->groups;
    for (int32_t row = 0; row < rows; row++) {
        const struct moments moments = {statistics[row], statistics[rows + row]};
        normalize_row(op, row % op->groups, moments, x + row * length_of(op), affine,
                      y + row * length_of(op));
    }
}

void poet_layer_norm_inference_f32(const struct poet_layer_norm *op, const float *x,
                                   const float *affine, float *y)
{
    const int32_t rows = op->samples * op->groups;
    for (int32_t row = 0; row < rows; row++) {
        const float *from = x + row * length_of(op);
        normalize_row(op, row % op->groups, moments_of(op, from), from, affine,
                      y + row * length_of(op));
    }
}

void poet_layer_norm_backward_affine_f32(const struct poet_layer_norm *op, const float *x,
                                         const float *statistics, const float *dy, float *daffine)
{
    const int32_t all = op->groups * op->channels;
    const int32_t rows = op->samples * op->groups;
    for (int32_t channel = 0; channel < all; channel++) {
        float dscale = 0.0f;
        float dshift = 0.0f;
        for (int32_t n = 0; n < op->samples; n++) {
            const int32_t row = n * op->groups + channel / op->channels;
            const float mean = statistics[row];
            const float inverse = 1.0f / poet_sqrtf(statistics[rows + row] + op->eps);
            const int32_t first = (n * all + channel) * op->inner;
            float row_dscale = 0.0f;
            float row_dshift = 0.0f;
            for (int32_t i = first; i < first + op->inner; i++) {
                row_dscale += dy[i] * ((x[i] - mean) * inverse);
                row_dshift += dy[i];
            }
            dscale += row_dscale;
            dshift += row_dshift;
        }
        daffine[channel] = dscale;
        daffine[all + channel] = dshift;
    }
}

void poet_layer_norm_backward_input_f32(const struct poet_layer_norm *op, const float *x,
                                        const float *statistics, const float *affine,
                                        const float *dy, float *dx)
{
    const int32_t rows = op->samples * op->groups;
    const float length = (float)length_of(op);
    for (int32_t row = 0; row < rows; row++) {
        const float *scale = affine + row % op->groups * op->channels;
        const float mean = statistics[row];
        const float inverse = 1.0f / poet_sqrtf(statistics[rows + row] + op->eps);
        const int32_t first = row * length_of(op);
        float sum = 0.0f;
        float along = 0.0f;
        for (int32_t c = 0; c < op->channels; c++) {
            const int32_t begin = first + c * op->inner;
            float row_sum = 0.0f;
            float row_along = 0.0f;
            for (int32_t i = begin; i < begin + op->inner; i++) {
                const float g = scale[c] * dy[i];
                row_sum += g;
                row_along += g * ((x[i] - mean) * inverse);
            }
            sum += row_sum;
            along += row_along;
        }
        const float mean_g = sum / length;
        const float mean_along = along / length;
        for (int32_t c = 0; c < op->channels; c++) {
            const int32_t begin = first + c * op->inner;
            for (int32_t i = begin; i < begin + op->inner; i++) {
                const float normalized = (x[i] - mean) * inverse;
                dx[i] = inverse * (scale[c] * dy[i] - mean_g - normalized * mean_along);
            }
        }
    }
}
