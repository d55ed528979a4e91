/* SPDX-License-Identifier: Apache-2.0 */
#include "batch_norm_small.h"

#include "poet_math.h"

/* One element at a time, which saves and restores no registers for bursts. */

/* Sum over all samples: over each row first, then over the rows. */
static inline __attribute__((always_inline)) float
sum_of(const struct poet_batch_norm_statistics *op, const float *x, int distances, float mean)
{
    const int32_t others = (op->channels - 1) * op->height * op->width; /* distance to the channel in the next sample */
    float total = 0.0f;
    int32_t samples = op->batch;
    do {
        int32_t rows = op->height;
        do {
            float sum = 0.0f;
            int32_t columns = op->width;
            do {
                const float value = *x++ - mean;
                sum += distances ? value * value : value;
            } while (--columns != 0);
            total += sum;
        } while (--rows != 0);
        x += others;
    } while (--samples != 0);
    return total;
}

void poet_batch_norm_small_statistics_f32(const struct poet_batch_norm_statistics *op, const float *x,
                                          float *statistics)
{
    const int32_t plane = op->height * op->width;
    const float count = (float)(op->batch * plane);
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = sum_of(op, x, 0, 0.0f) / count;
        statistics[c] = mean;
        statistics[op->channels + c] = sum_of(op, x, 1, mean) / count;
        x += plane;
    }
}

void poet_batch_norm_small_normalize_f32(const struct poet_batch_norm *op, const float *x,
                                         const float *statistics, const float *affine, float *y)
{
    const int32_t channels = op->channels;
    const int32_t plane = op->height * op->width;
    const int32_t others = (channels - 1) * plane;
    for (int32_t c = 0; c < channels; c++) {
        const float mean = statistics[c];
        const float scale = affine[c] / poet_inline_sqrtf(statistics[channels + c] + op->eps);
        const float shift = affine[channels + c];
        const float *from = x + c * plane;
        float *to = y + c * plane;
        int32_t samples = op->batch;
        do {
            int32_t left = plane;
            do {
                *to++ = (*from++ - mean) * scale + shift;
            } while (--left != 0);
            from += others;
            to += others;
        } while (--samples != 0);
    }
}

void poet_batch_norm_small_inference_f32(const struct poet_batch_norm *op, const float *x,
                                         const float *affine, const float *running, float *y)
{
    poet_batch_norm_small_normalize_f32(op, x, running, affine, y);
}

void poet_batch_norm_small_backward_affine_f32(const struct poet_batch_norm *op, const float *x,
                                               const float *statistics, const float *dy,
                                               float *daffine)
{
    const int32_t channels = op->channels;
    const int32_t plane = op->height * op->width;
    const int32_t others = (channels - 1) * plane;
    for (int32_t c = 0; c < channels; c++) {
        const float mean = statistics[c];
        float dgamma = 0.0f;
        float dbeta = 0.0f;
        const float *s = x + c * plane;
        const float *g = dy + c * plane;
        int32_t samples = op->batch;
        do {
            int32_t rows = op->height;
            do {
                float row_dgamma = 0.0f;
                float row_dbeta = 0.0f;
                int32_t columns = op->width;
                do {
                    const float gradient = *g++;
                    row_dgamma += gradient * (*s++ - mean);
                    row_dbeta += gradient;
                } while (--columns != 0);
                dgamma += row_dgamma;
                dbeta += row_dbeta;
            } while (--rows != 0);
            s += others;
            g += others;
        } while (--samples != 0);
        daffine[c] = dgamma / poet_inline_sqrtf(statistics[channels + c] + op->eps);
        daffine[channels + c] = dbeta;
    }
}

void poet_batch_norm_small_backward_input_f32(const struct poet_batch_norm *op, const float *x,
                                              const float *statistics, const float *affine,
                                              const float *daffine, const float *dy, float *dx)
{
    const int32_t channels = op->channels;
    const int32_t plane = op->height * op->width;
    const int32_t others = (channels - 1) * plane;
    const float count = (float)(op->batch * plane);
    for (int32_t c = 0; c < channels; c++) {
        const float mean = statistics[c];
        const float deviation = poet_inline_sqrtf(statistics[channels + c] + op->eps);
        const float scale = affine[c] / deviation;
        const float slope = daffine[c] / deviation / count;
        const float offset = daffine[channels + c] / count;
        const float *s = x + c * plane;
        const float *g = dy + c * plane;
        float *to = dx + c * plane;
        int32_t samples = op->batch;
        do {
            int32_t left = plane;
            do {
                *to++ = scale * ((*g++ - offset) - (*s++ - mean) * slope);
            } while (--left != 0);
            s += others;
            g += others;
            to += others;
        } while (--samples != 0);
    }
}
