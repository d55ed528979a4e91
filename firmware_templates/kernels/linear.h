/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a dense layer's bias. Its other passes are products of matrices, matmul.h:
 *
 *   x   [batch][in_features]     y  = x * w transposed, plus the bias, summed in runs of 32 features
 *   w   [out_features][in_features]
 *   b   [out_features]           dx = dy * w
 *   y   [batch][out_features]    dw = dy transposed * x
 */
#ifndef POET_LINEAR_H
#define POET_LINEAR_H

#include <stdint.h>

struct poet_linear_bias {
    int32_t batch;
    int32_t out_features;
};

/* db[o] = sum over n of dy[n][o] */
void poet_linear_backward_bias_f32(const struct poet_linear_bias *op, const float *dy, float *db);

#endif
