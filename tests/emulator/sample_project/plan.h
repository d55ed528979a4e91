/* SPDX-License-Identifier: Apache-2.0 */
/* A plan written by hand, small but with all that a generated one has: a weight trained by gradient
 * descent on y = 3x, an activation that is paged out, overwritten and paged in, a captured gradient.
 */
#ifndef POET_PLAN_H
#define POET_PLAN_H

#include <stdint.h>

#include "slots.h"

#define POET_PLAN_ID 0x5a3b1e00u
#define POET_BOARD "sample"
#ifndef POET_RAM_BYTES
#define POET_RAM_BYTES 262144u
#endif
#ifndef POET_FLASH_BYTES
#define POET_FLASH_BYTES 1048576u
#endif
#define POET_STACK_BYTES 4096u
#ifndef POET_DCDC_INDUCTOR
#define POET_DCDC_INDUCTOR 1
#endif
#ifndef POET_CONSOLE_BAUD
#define POET_CONSOLE_BAUD 115200u
#endif
#define POET_ARENA_BYTES 4096u
#define POET_ARENA_ALIGNMENT 8u
#define POET_BLOCK_BYTES 512u
#define POET_PAGE_BUFFER 0u
#define POET_BATCH 4u
#define POET_X_BYTES 600u
#define POET_Y_BYTES 4u
#define POET_OUTPUT_BYTES 4u
#define POET_CLASSES 0
#define POET_PAGES 4

extern uint8_t poet_arena[POET_ARENA_BYTES];

#define T0000 ((float *)(void *)(poet_arena + 512u))  /* weight[1] */
#define T0001 ((float *)(void *)(poet_arena + 520u))  /* x[4,150] */
#define T0001_BYTES 2400u
#define T0002 ((float *)(void *)(poet_arena + 2920u)) /* y[4] */
#define T0003 ((float *)(void *)(poet_arena + 2936u)) /* mean of each x[i], [4], paged */
#define T0003_BYTES 16u
#define T0004 ((float *)(void *)(poet_arena + 2952u)) /* loss[1] */
#define T0005 ((float *)(void *)(poet_arena + 2960u)) /* weight gradient[1] */
#define T0005_BYTES 4u
#define POET_LOSS T0004
#define POET_METRIC T0004
#define POET_X_MEMBERS {0u, 600u, 1} /* first byte, bytes, 1 for floats */
#define POET_Y_MEMBERS {0u, 4u, 1} /* first byte, bytes, 1 for floats */

#define SLOT_T0000 0u
#define SLOT_T0003 1u
#define SLOT_T0005 2u
#define SLOT_T0001 3u
#define POET_SLOTS 4u
extern const struct poet_slot poet_slots[POET_SLOTS];

#define POET_PERSISTENTS 1u
extern const uint32_t poet_persistents[POET_PERSISTENTS];

#endif
