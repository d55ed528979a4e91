/* SPDX-License-Identifier: Apache-2.0 */
#include "batch_norm.h"

#include "poet_math.h"

/* Sums run over a row first and then over the rows, which keeps rounding errors small. */

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))

INLINE float squared(float value)
{
    return value * value;
}

/* The sum of a channel's elements, or of their squared distances to the mean. */
INLINE float sum_of(const struct poet_batch_norm_statistics *op, const float *x, int distances,
                    float mean)
{
    const int32_t others = (op->channels - 1) * op->height * op->width;
    const float *row = x;
    float total = 0.0f;
    int32_t samples = op->batch;
    do {
        int32_t rows = op->height;
        do {
            int32_t left = op->width;
            float sum = 0.0f;
            for (; left >= 4; left -= 4) {
                sum += distances ? squared(row[0] - mean) : row[0];
                sum += distances ? squared(row[1] - mean) : row[1];
                sum += distances ? squared(row[2] - mean) : row[2];
                sum += distances ? squared(row[3] - mean) : row[3];
                row += 4;
            }
            for (; left > 0; left--) {
                sum += distances ? squared(*row - mean) : *row;
                row++;
            }
            total += sum;
        } while (--rows > 0);
        row += others; /* to the channel in the next sample */
    } while (--samples > 0);
    return total;
}

void poet_batch_norm_statistics_f32(const struct poet_batch_norm_statistics *op, const float *x,
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
    const int32_t others = (op->channels - 1) * plane; /* to the channel in the next sample */
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = statistics[c];
        const float scale = affine[c] / poet_sqrtf(statistics[op->channels + c] + op->eps);
        const float shift = affine[op->channels + c];
        const float *from = x + c * plane;
        float *to = y + c * plane;
        int32_t samples = op->batch;
        do {
            int32_t left = plane;
            for (; left % 4 != 0; left--) {
                *to++ = (*from++ - mean) * scale + shift;
            }
            for (; left > 0; left -= 4) {
                const float a = (from[0] - mean) * scale + shift;
                const float b = (from[1] - mean) * scale + shift;
                const float d = (from[2] - mean) * scale + shift;
                const float e = (from[3] - mean) * scale + shift;
                from += 4;
                to[0] = a;
                to[1] = b;
                to[2] = d;
                to[3] = e;
                to += 4;
            }
            from += others;
            to += others;
        } while (--samples > 0);
    }
}

void poet_batch_norm_inference_f32(const struct poet_batch_norm *op, const float *x,
                                   const float *affine, const float *running, float *y)
{
    poet_batch_norm_normalize_f32(op, x, running, affine, y);
}

struct sums {
    float dgamma;
    float dbeta;
};

INLINE void add_gradient(struct sums *sum, float centred, float dy)
{
    sum->dgamma += dy * centred;
    sum->dbeta += dy;
}

void poet_batch_norm_backward_affine_f32(const struct poet_batch_norm *op, const float *x,
                                         const float *statistics, const float *dy, float *daffine)
{
    const int32_t plane = op->height * op->width;
    const int32_t others = (op->channels - 1) * plane; /* to the channel in the next sample */
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = statistics[c];
        float dgamma = 0.0f;
        float dbeta = 0.0f;
        const float *s = x + c * plane;
        const float *g = dy + c * plane;
        int32_t samples = op->batch;
        do {
            int32_t rows = op->height;
            do {
                struct sums row = {0.0f, 0.0f};
                int32_t left = op->width;
                for (; left % 4 != 0; left--) {
                    add_gradient(&row, *s++ - mean, *g++);
                }
                for (; left > 0; left -= 4) {
                    add_gradient(&row, s[0] - mean, g[0]);
                    add_gradient(&row, s[1] - mean, g[1]);
                    add_gradient(&row, s[2] - mean, g[2]);
                    add_gradient(&row, s[3] - mean, g[3]);
                    s += 4;
                    g += 4;
                }
                dgamma += row.dgamma;
                dbeta += row.dbeta;
            } while (--rows > 0);
            s += others;
            g += others;
        } while (--samples > 0);
        daffine[c] = dgamma / poet_sqrtf(statistics[op->channels + c] + op->eps);
        daffine[op->channels + c] = dbeta;
    }
}

void poet_batch_norm_backward_input_f32(const struct poet_batch_norm *op, const float *x,
                                        const float *statistics, const float *affine,
                                        const float *daffine, const float *dy, float *dx)
{
    const int32_t plane = op->height * op->width;
    const int32_t others = (op->channels - 1) * plane; /* to the channel in the next sample */
    const float count = (float)(op->batch * plane);
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = statistics[c];
        const float deviation = poet_sqrtf(statistics[op->channels + c] + op->eps);
        const float scale = affine[c] / deviation;
        const float slope = daffine[c] / deviation / count;
        const float offset = daffine[op->channels + c] / count;
        const float *s = x + c * plane;
        const float *g = dy + c * plane;
        float *to = dx + c * plane;
        int32_t samples = op->batch;
        do {
            int32_t left = plane;
            for (; left % 4 != 0; left--) {
                *to++ = scale * ((*g++ - offset) - (*s++ - mean) * slope);
            }
            for (; left > 0; left -= 4) {
                const float a = scale * ((g[0] - offset) - (s[0] - mean) * slope);
                const float b = scale * ((g[1] - offset) - (s[1] - mean) * slope);
                const float d = scale * ((g[2] - offset) - (s[2] - mean) * slope);
                const float e = scale * ((g[3] - offset) - (s[3] - mean) * slope);
                s += 4;
                g += 4;
                to[0] = a;
                to[1] = b;
                to[2] = d;
                to[3] = e;
                to += 4;
            }
            s += others;
            g += others;
            to += others;
        } while (--samples > 0);
    }
}
