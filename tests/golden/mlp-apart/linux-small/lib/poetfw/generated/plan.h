/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: the plan of mlp on linux, batch 4: sizes, addresses and slots.
 * Written by poetfw 0.1.0 (plan 62f4bbef). Do not edit: change the plan and build again.
 */
#ifndef POET_PLAN_H
#define POET_PLAN_H

#include <stdint.h>

#include "slots.h"

#define POET_PLAN_ID 0x62f4bbefu /* names this plan; the storage image must agree */
#define POET_BOARD "linux"
#define POET_RAM_BYTES 1073741824u
#define POET_FLASH_BYTES 1073741824u
#define POET_STACK_BYTES 65536u
#define POET_DCDC_INDUCTOR 0 /* 1 if the board has that of the chip's converter */
#define POET_CONSOLE_BAUD 115200u /* of the serial line */
#define POET_ARENA_BYTES 56416u
#define POET_ARENA_ALIGNMENT 8u
#define POET_BLOCK_BYTES 512u /* one storage block */
#define POET_PAGE_BUFFER 52320u /* its offset in the arena */
#define POET_BATCH 4u
#define POET_X_BYTES 256u /* features of one sample */
#define POET_Y_BYTES 4u /* target of one sample */
#define POET_OUTPUT_BYTES 40u /* what is predicted of one sample */
#define POET_CLASSES 10 /* 0 where it does not classify */
#define POET_PAGES 0 /* transfers of a training step */
#define POET_LOSS P0006
#define POET_METRIC P0013
#define POET_X_MEMBERS {0u, 256u, 1} /* first byte, bytes, 1 for floats */
#define POET_Y_MEMBERS {0u, 4u, 0} /* first byte, bytes, 1 for floats */
#define POET_MESSAGES 17u /* from partners and to them */
#define POET_STEP_MESSAGES 15u /* the first ones: those of a training step */

extern uint8_t poet_arena[POET_ARENA_BYTES];

/* The tensors that live for the whole run, at the bottom of the arena. */
#define P0000 ((float *)(void *)(poet_arena + 0u)) /* hidden1.weight [64,64] */
#define P0001 ((float *)(void *)(poet_arena + 16384u)) /* hidden1.bias [64] */
#define P0002 ((float *)(void *)(poet_arena + 16640u)) /* hidden2.weight [32,64] */
#define P0003 ((float *)(void *)(poet_arena + 24832u)) /* hidden2.bias [32] */
#define P0004 ((float *)(void *)(poet_arena + 24960u)) /* logits.weight [10,32] */
#define P0005 ((float *)(void *)(poet_arena + 26240u)) /* logits.bias [10] */
#define P0006 ((float *)(void *)(poet_arena + 26280u)) /* loss [1] */
#define P0007 ((float *)(void *)(poet_arena + 26288u)) /* logits.weight.momentum [10,32] */
#define P0008 ((float *)(void *)(poet_arena + 27568u)) /* logits.bias.momentum [10] */
#define P0009 ((float *)(void *)(poet_arena + 27608u)) /* hidden2.weight.momentum [32,64] */
#define P0010 ((float *)(void *)(poet_arena + 35800u)) /* hidden2.bias.momentum [32] */
#define P0011 ((float *)(void *)(poet_arena + 35928u)) /* hidden1.weight.momentum [64,64] */
#define P0013 ((float *)(void *)(poet_arena + 52312u)) /* metric [1] */

/* The slots: where tensors are in storage. */
#define SLOT_P0000 0u /* persistent: hidden1.weight */
#define SLOT_P0001 1u /* persistent: hidden1.bias */
#define SLOT_P0002 2u /* persistent: hidden2.weight */
#define SLOT_P0003 3u /* persistent: hidden2.bias */
#define SLOT_P0004 4u /* persistent: logits.weight */
#define SLOT_P0005 5u /* persistent: logits.bias */
#define SLOT_P0006 6u /* persistent: loss */
#define SLOT_P0007 7u /* persistent: logits.weight.momentum */
#define SLOT_P0008 8u /* persistent: logits.bias.momentum */
#define SLOT_P0009 9u /* persistent: hidden2.weight.momentum */
#define SLOT_P0010 10u /* persistent: hidden2.bias.momentum */
#define SLOT_P0011 11u /* persistent: hidden1.weight.momentum */
#define SLOT_P0013 12u /* persistent: metric */
#define CAPTURE_P0005 13u /* capture: logits.bias */
#define CAPTURE_P0003 14u /* capture: hidden2.bias */
#define POET_SLOTS 15u
extern const struct poet_slot poet_slots[POET_SLOTS];

/* What is loaded at boot and committed. */
#define POET_PERSISTENTS 13u
extern const uint32_t poet_persistents[POET_PERSISTENTS];

#endif
