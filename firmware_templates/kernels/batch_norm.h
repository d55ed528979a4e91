/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation: inference, training and gradients.
 *
 *   x            [batch][channels][height][width], as are y, dy and dx
 *   statistics   [2][channels]: mean and biased variance of the batch
 *   running      [2][channels]: running mean and unbiased variance
 *   affine       [2][channels]: gamma and beta; daffine: their gradients
 *
 * y and dx may be the buffer of x or dy; otherwise no buffer may overlap another that is written.
 */
#ifndef POET_BATCH_NORM_H
#define POET_BATCH_NORM_H

#include <stdint.h>

struct poet_batch_norm {
    int32_t batch;
    int32_t channels;
    int32_t height;
    int32_t width;
    float eps;
};

struct poet_batch_norm_statistics {
    int32_t batch;
    int32_t channels;
    int32_t height;
    int32_t width;
};

struct poet_batch_norm_running {
    int32_t channels;
    int32_t count; /* number of elements per channel in the statistics, 2 or more */
    float momentum;
};

/* y = gamma * (x - mean) / sqrt(variance + eps) + beta, with the running statistics */
void poet_batch_norm_inference_f32(const struct poet_batch_norm *op, const float *x,
                                   const float *affine, const float *running, float *y);

/* Mean, then mean squared deviation, of each channel */
void poet_batch_norm_statistics_f32(const struct poet_batch_norm_statistics *op, const float *x,
                                    float *statistics);

/* running = (1 - momentum) * running + momentum * batch, with the batch's unbiased variance */
void poet_batch_norm_update_running_f32(const struct poet_batch_norm_running *op,
                                        const float *statistics, float *running);

/* y as in inference, but with the batch's statistics */
void poet_batch_norm_normalize_f32(const struct poet_batch_norm *op, const float *x,
                                   const float *statistics, const float *affine, float *y);

/* dgamma = sum of dy * (x - mean) / sqrt(variance + eps), dbeta = sum of dy */
void poet_batch_norm_backward_affine_f32(const struct poet_batch_norm *op, const float *x,
                                         const float *statistics, const float *dy, float *daffine);

/* dx = gamma * r * (dy - dbeta / count - (x - mean) * r * dgamma / count)
 * with r = 1 / sqrt(variance + eps) and count elements per channel */
void poet_batch_norm_backward_input_f32(const struct poet_batch_norm *op, const float *x,
                                        const float *statistics, const float *affine,
                                        const float *daffine, const float *dy, float *dx);

#endif
