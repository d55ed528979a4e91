/* SPDX-License-Identifier: Apache-2.0 */
#include "linear_lanes.h"

#include "product.h"

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

static inline __attribute__((always_inline)) void
sum_lanes(const struct poet_linear_lanes *op, const float *factors, const float *others, int32_t other_next,
          int32_t shift_next, int32_t result_next, float *result)
{
    for (int32_t lane = 0; lane < op->lanes; lane++) {
        float sum = 0.0f;
        for (int32_t k = 0; k < op->count; k++) {
            sum = poet_add_product(sum, *factors++, others[k * other_next]);
        }
        result[lane * result_next] = sum + op->shift[lane * shift_next];
    }
}

void poet_linear_lanes_f32(const struct poet_linear_lanes *op, const float *factors, const float *others,
                           float *result)
{
    sum_lanes(op, factors, others, 1, 1, 1, result);
}

void poet_linear_lanes_apart_f32(const struct poet_linear_lanes *op, const float *factors,
                                 const float *others, float *result)
{
    sum_lanes(op, factors, others, op->other_next, 0, op->result_next, result);
}

#endif
