/* SPDX-License-Identifier: Apache-2.0 */
#include "sgd.h"

#include <stddef.h>

void poet_sgd_update_f32(const struct poet_sgd *op, const float *gradient, const float *factor,
                         float *parameter, float *momentum)
{
    const float scale = factor != NULL ? *factor : 1.0f;
    for (int32_t i = 0; i < op->elements; i++) {
        poet_sgd_step_f32(op, scale * gradient[i], parameter + i,
                          momentum != NULL ? momentum + i : NULL);
    }
}
