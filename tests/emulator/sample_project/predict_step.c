/* SPDX-License-Identifier: Apache-2.0 */
/* The weight times the mean of the features. */
#include "poet.h"

#include "poet_memory.h"

#define FEATURES 150u

int poet_predict_step(const void *x, void *output)
{
    float sum = 0.0f;
    memcpy(T0001, x, POET_X_BYTES);
    poet_between_ops();
    for (uint32_t j = 0u; j < FEATURES; j++) {
        sum += T0001[j];
    }
    T0003[0] = T0000[0] * (sum / (float)FEATURES);
    memcpy(output, T0003, POET_OUTPUT_BYTES);
    return POET_OK;
}
