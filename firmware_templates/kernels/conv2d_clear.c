/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_clear.h"

#if !defined(__ARM_ARCH_7EM__) || !defined(__ARM_FP)

void poet_conv2d_clear_f32(float *to, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        to[i] = 0.0f;
    }
}

#endif
