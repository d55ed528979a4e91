/* SPDX-License-Identifier: Apache-2.0 */
/* All that generated code needs, except the kernels' headers. */
#ifndef POET_H
#define POET_H

#include "data.h"
#include "plan.h"
#include "slots.h"
#include "status.h"
#include "storage.h"

#include <stddef.h>
#include <stdint.h>

/* Generated: one training step, and the forward pass of one evaluation batch. */
int poet_train_step(void);
int poet_evaluate_step(void);

/* Trains as the storage image says, reports on the console, and ends by poet_hal_exit. */
_Noreturn void poet_run(void);

#endif
