/* SPDX-License-Identifier: Apache-2.0 */
/* Mean squared error, by the first feature alone. */
#include "poet.h"

#define FEATURES 150u

int poet_evaluate_step(void)
{
    POET_TRY(poet_data_load_x(T0001));
    POET_TRY(poet_data_load_y(T0002));
    float loss = 0.0f;
    for (uint32_t i = 0u; i < POET_BATCH; i++) {
        const float error = T0000[0] * T0001[i * FEATURES] - T0002[i];
        loss += error * error;
    }
    T0004[0] = loss / (float)POET_BATCH;
    return POET_OK;
}
