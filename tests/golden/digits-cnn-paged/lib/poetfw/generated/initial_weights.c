/* SPDX-License-Identifier: Apache-2.0 */
/* initial_weights.c: what digits-cnn on nrf52840, batch 4 begins from.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 */
#include "poet.h"

int poet_initial_weights(void)
{
    return POET_ERROR_WEIGHTS;
}
