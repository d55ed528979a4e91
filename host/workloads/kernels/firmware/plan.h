/* SPDX-License-Identifier: Apache-2.0 */
/* What the runtime's files ask of a plan, for a firmware that has no training step. */
#ifndef POET_PLAN_H
#define POET_PLAN_H

#include <stdint.h>

#include "storage.h"

#define POET_ARENA_BYTES BENCH_ARENA_BYTES
#define POET_ARENA_ALIGNMENT 8u
#define POET_BLOCK_BYTES 512u

extern uint8_t poet_arena[POET_ARENA_BYTES];

#endif
