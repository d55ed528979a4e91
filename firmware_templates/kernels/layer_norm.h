/* SPDX-License-Identifier: Apache-2.0 */
/* Layer, group and instance normalisation, which normalise rows.
 *
 *   x            [samples][groups][channels][inner]   a row is a group of a sample
 *   affine       [2][groups * channels]               scale and shift
 *   statistics   [2][samples * groups]                mean and variance of each row
 *
 * With x^ = (x - mean) / sqrt(variance + eps), y = scale * x^ + shift. y may be the buffer of x.
 */
#ifndef POET_LAYER_NORM_H
#define POET_LAYER_NORM_H

#include <stdint.h>

struct poet_layer_norm {
    int32_t samples;
    int32_t groups;
    int32_t channels;
    int32_t inner;
    float eps;
};

/* Mean and biased variance of each row, in two passes. */
void poet_layer_norm_statistics_f32(const struct poet_layer_norm *op, const float *x,
                                    float *statistics);

void poet_layer_norm_normalize_f32(const struct poet_layer_norm *op, const float *x,
                                   const float *statistics, const float *affine, float *y);

/* Statistics and normalisation in one, for inference. */
void poet_layer_norm_inference_f32(const struct poet_layer_norm *op, const float *x,
                                   const float *affine, float *y);

/* daffine[0] = sum of dy * x^ and daffine[1] = sum of dy, over samples and inner */
void poet_layer_norm_backward_affine_f32(const struct poet_layer_norm *op, const float *x,
                                         const float *statistics, const float *dy, float *daffine);

/* dx = (g - mean of g - x^ * mean of g * x^) / sqrt(variance + eps), g = scale * dy, means of the row;
 * dx may be the buffer of x or dy */
void poet_layer_norm_backward_input_f32(const struct poet_layer_norm *op, const float *x,
                                        const float *statistics, const float *affine,
                                        const float *dy, float *dx);

#endif
