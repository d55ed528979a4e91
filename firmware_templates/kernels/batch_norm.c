/* SPDX-License-Identifier: Apache-2.0 */
#include "batch_norm.h"

#include "poet_math.h"

/* Sums run over a row first and then over the rows, which keeps rounding errors small. */

static float sum_of(const struct poet_batch_norm_statistics *op, const float *x)
{
    const int32_t sample = op->channels * op->height * op->width;
    float total = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        const float *row = x;
        for (int32_t i = 0; i < op->height; i++) {
            float sum = 0.0f;
            for (int32_t j = 0; j < op->width; j++) {
                sum += row[j];
            }
            total += sum;
            row += op->width;
        }
        x += sample;
    }
    return total;
}

static float sum_of_squares(const struct poet_batch_norm_statistics *op, const float *x, float mean)
{
    const int32_t sample = op->channels * op->height * op->width;
    float total = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        const float *row = x;
        for (int32_t i = 0; i < op->height; i++) {
            float sum = 0.0f;
            for (int32_t j = 0; j < op->width; j++) {
                const float centred = row[j] - mean;
                sum += centred * centred;
            }
            total += sum;
            row += op->width;
        }
        x += sample;
    }
    return total;
}

void poet_batch_norm_statistics_f32(const struct poet_batch_norm_statistics *op, const float *x,
                                    float *statistics)
{
    const int32_t plane = op->height * op->width;
    const float count = (float)(op->batch * plane);
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = sum_of(op, x) / count;
        statistics[c] = mean;
        statistics[op->channels + c] = sum_of_squares(op, x, mean) / count;
        x += plane;
    }
}

void poet_batch_norm_update_running_f32(const struct poet_batch_norm_running *op,
                                        const float *statistics, float *running)
{
    const float kept = 1.0f - op->momentum;
    const float unbiased = (float)op->count / (float)(op->count - 1);
    for (int32_t c = 0; c < op->channels; c++) {
        const int32_t v = op->channels + c;
        running[c] = kept * running[c] + op->momentum * statistics[c];
        running[v] = kept * running[v] + op->momentum * (statistics[v] * unbiased);
    }
}

void poet_batch_norm_normalize_f32(const struct poet_batch_norm *op, const float *x,
                                   const float *statistics, const float *affine, float *y)
{
    const int32_t plane = op->height * op->width;
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = statistics[c];
        const float scale = affine[c] / poet_sqrtf(statistics[op->channels + c] + op->eps);
        const float shift = affine[op->channels + c];
        for (int32_t n = 0; n < op->batch; n++) {
            const int32_t first = (n * op->channels + c) * plane;
            for (int32_t i = first; i < first + plane; i++) {
                y[i] = (x[i] - mean) * scale + shift;
            }
        }
    }
}

void poet_batch_norm_inference_f32(const struct poet_batch_norm *op, const float *x,
                                   const float *affine, const float *running, float *y)
{
    poet_batch_norm_normalize_f32(op, x, running, affine, y);
}

void poet_batch_norm_backward_affine_f32(const struct poet_batch_norm *op, const float *x,
                                         const float *statistics, const float *dy, float *daffine)
{
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = statistics[c];
        float dgamma = 0.0f;
        float dbeta = 0.0f;
        for (int32_t n = 0; n < op->batch; n++) {
            int32_t row = (n * op->channels + c) * op->height * op->width;
            for (int32_t i = 0; i < op->height; i++) {
                float row_dgamma = 0.0f;
                float row_dbeta = 0.0f;
                for (int32_t j = row; j < row + op->width; j++) {
                    row_dgamma += dy[j] * (x[j] - mean);
                    row_dbeta += dy[j];
                }
                dgamma += row_dgamma;
                dbeta += row_dbeta;
                row += op->width;
            }
        }
        daffine[c] = dgamma / poet_sqrtf(statistics[op->channels + c] + op->eps);
        daffine[op->channels + c] = dbeta;
    }
}

void poet_batch_norm_backward_input_f32(const struct poet_batch_norm *op, const float *x,
                                        const float *statistics, const float *affine,
                                        const float *daffine, const float *dy, float *dx)
{
    const int32_t plane = op->height * op->width;
    const float count = (float)(op->batch * plane);
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = statistics[c];
        const float deviation = poet_sqrtf(statistics[op->channels + c] + op->eps);
        const float scale = affine[c] / deviation;
        const float slope = daffine[c] / deviation / count;
        const float offset = daffine[op->channels + c] / count;
        for (int32_t n = 0; n < op->batch; n++) {
            const int32_t first = (n * op->channels + c) * plane;
            for (int32_t i = first; i < first + plane; i++) {
                dx[i] = scale * ((dy[i] - offset) - (x[i] - mean) * slope);
            }
        }
    }
}
