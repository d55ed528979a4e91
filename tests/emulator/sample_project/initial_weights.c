/* SPDX-License-Identifier: Apache-2.0 */
#include "poet.h"

int poet_initial_weights(void)
{
    T0000[0] = 0.5f;
    return POET_OK;
}
