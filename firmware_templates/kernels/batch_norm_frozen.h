/* SPDX-License-Identifier: Apache-2.0 */
/* Input gradient of batch normalisation with fixed statistics. */
#ifndef POET_BATCH_NORM_FROZEN_H
#define POET_BATCH_NORM_FROZEN_H

#include "batch_norm.h"

/* dx = dy * gamma / sqrt(variance + eps); dx may be the buffer of dy */
void poet_batch_norm_frozen_backward_f32(const struct poet_batch_norm *op, const float *dy,
                                         const float *affine, const float *running, float *dx);

#endif
