/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of batch_norm.h for feature maps smaller than a burst, bit-identical. */
#ifndef POET_BATCH_NORM_SMALL_H
#define POET_BATCH_NORM_SMALL_H

#include "batch_norm.h"

void poet_batch_norm_small_inference_f32(const struct poet_batch_norm *op, const float *x,
                                         const float *affine, const float *running, float *y);
void poet_batch_norm_small_statistics_f32(const struct poet_batch_norm_statistics *op, const float *x,
                                          float *statistics);
void poet_batch_norm_small_normalize_f32(const struct poet_batch_norm *op, const float *x,
                                         const float *statistics, const float *affine, float *y);
void poet_batch_norm_small_backward_affine_f32(const struct poet_batch_norm *op, const float *x,
                                               const float *statistics, const float *dy,
                                               float *daffine);
void poet_batch_norm_small_backward_input_f32(const struct poet_batch_norm *op, const float *x,
                                              const float *statistics, const float *affine,
                                              const float *daffine, const float *dy, float *dx);

#endif
