/* SPDX-License-Identifier: Apache-2.0 */
#include "batch_norm.h"

#include <stdbool.h>

#include "burst.h"
#include "poet_math.h"
#include "shapes.h"

/* Sums run over a row first and then over the rows, which keeps rounding errors small. */

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))

/* An element, or its squared distance to the mean. */
INLINE float term(float value, bool distances, float mean)
{
    const float distance = value - mean;
    return distances ? distance * distance : value;
}

/* Adds to the total the sums of a row and the next, which *row then is behind: two at a time, so that an addition need
 * not wait for the one before. */
INLINE float add_rows(float total, const float **row, uint32_t width, bool distances, float mean)
{
    const float *first = *row;
    const float *second = first + width;
    float a = 0.0f;
    float b = 0.0f;
    for (uint32_t bursts = width / POET_BURST; bursts != 0u; bursts--) {
        const struct poet_burst p = poet_load_burst(&first);
        const struct poet_burst q = poet_load_burst_too(&second);
        POET_EACH_OF_BURST
        for (int i = 0; i < POET_BURST; i++) {
            a += term(p.of[i], distances, mean);
            b += term(q.of[i], distances, mean);
        }
    }
    for (const float *const end = first + width % POET_BURST; first != end;) {
        a += term(*first++, distances, mean);
        b += term(*second++, distances, mean);
    }
    *row = second;
    total += a;
    return total + b;
}

/* The sum of a channel's elements, or of their squared distances to the mean. */
INLINE float sum_of(const struct poet_batch_norm_statistics *op, const float *x,
                                              bool distances, float mean)
{
    const uint32_t width = (uint32_t)op->width;
    const int32_t others = (op->channels - 1) * op->height * op->width;
    float total = 0.0f;
    int32_t samples = op->batch;
    do {
        int32_t rows = op->height;
        for (; POET_HAS_FPU && rows >= 2; rows -= 2) {
            total = distances ? add_rows(total, &x, width, true, mean)
                              : add_rows(total, &x, width, false, mean);
        }
        for (; (!POET_HAS_FPU || POET_BATCH_NORM_ROWS % 2 != 0) && rows > 0; rows--) {
            const float *const end = x + width;
            float a = 0.0f;
            do {
                a += term(*x++, distances, mean);
            } while (x != end);
            total += a;
        }
        x += others; /* to the channel in the next sample */
    } while (--samples != 0);
    return total;
}

void poet_batch_norm_statistics_f32(const struct poet_batch_norm_statistics *op, const float *x,
                                    float *statistics)
{
    const int32_t plane = op->height * op->width;
    const float count = (float)(op->batch * plane);
    for (int32_t c = 0; c < op->channels; c++) {
        const float mean = sum_of(op, x, false, 0.0f) / count;
        statistics[c] = mean;
        statistics[op->channels + c] = sum_of(op, x, true, mean) / count;
        x += plane;
    }
}

__attribute__((cold)) void
poet_batch_norm_update_running_f32(const struct poet_batch_norm_running *op,
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
    const int32_t bursts = (int32_t)((uint32_t)plane / POET_BURST);
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
            for (; POET_BATCH_NORM_PLANE % POET_BURST != 0 && left % POET_BURST != 0; left--) {
                *to++ = (*from++ - mean) * scale + shift;
            }
            for (left = bursts; left != 0; left--) {
                struct poet_burst at = poet_load_burst(&from);
                POET_EACH_OF_BURST
                for (int i = 0; i < POET_BURST; i++) {
                    at.of[i] = (at.of[i] - mean) * scale + shift;
                }
                poet_store_burst(&to, &at);
            }
            from += others;
            to += others;
        } while (--samples != 0);
    }
}

void poet_batch_norm_inference_f32(const struct poet_batch_norm *op, const float *x,
                                   const float *affine, const float *running, float *y)
{
    poet_batch_norm_normalize_f32(op, x, running, affine, y);
}

INLINE struct poet_burst distances(const float **next, float mean)
{
    struct poet_burst at = poet_load_burst(next);
    POET_EACH_OF_BURST
    for (int i = 0; i < POET_BURST; i++) {
        at.of[i] -= mean;
    }
    return at;
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
    const uint32_t width = (uint32_t)op->width;
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
                for (const float *const end = s + width % POET_BURST; s != end;) {
                    add_gradient(&row, *s++ - mean, *g++);
                }
                for (uint32_t left = width / POET_BURST; left != 0u; left--) {
                    const struct poet_burst x_at = distances(&s, mean);
                    const struct poet_burst g_at = poet_load_burst_too(&g);
                    POET_EACH_OF_BURST
                    for (int i = 0; i < POET_BURST; i++) {
                        add_gradient(&row, x_at.of[i], g_at.of[i]);
                    }
                }
                dgamma += row.dgamma;
                dbeta += row.dbeta;
            } while (--rows != 0);
            s += others;
            g += others;
        } while (--samples != 0);
        daffine[c] = dgamma / poet_sqrtf(statistics[op->channels + c] + op->eps);
        daffine[op->channels + c] = dbeta;
    }
}

void poet_batch_norm_backward_input_f32(const struct poet_batch_norm *op, const float *x,
                                        const float *statistics, const float *affine,
                                        const float *daffine, const float *dy, float *dx)
{
    const int32_t plane = op->height * op->width;
    const int32_t bursts = (int32_t)((uint32_t)plane / POET_BURST);
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
            for (; POET_BATCH_NORM_PLANE % POET_BURST != 0 && left % POET_BURST != 0; left--) {
                *to++ = scale * ((*g++ - offset) - (*s++ - mean) * slope);
            }
            for (left = bursts; left != 0; left--) {
                struct poet_burst x_at = distances(&s, mean);
                struct poet_burst g_at = poet_load_burst_too(&g);
                POET_EACH_OF_BURST
                for (int i = 0; i < POET_BURST; i++) {
                    g_at.of[i] = scale * ((g_at.of[i] - offset) - x_at.of[i] * slope);
                }
                poet_store_burst(&to, &g_at);
            }
            s += others;
            g += others;
            to += others;
        } while (--samples != 0);
    }
}
