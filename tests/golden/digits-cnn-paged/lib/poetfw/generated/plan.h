/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: the plan of digits-cnn on nrf52840, batch 4: sizes, addresses and slots.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 */
#ifndef POET_PLAN_H
#define POET_PLAN_H

#include <stdint.h>

#include "slots.h"

#define POET_PLAN_ID 0x6313a2e5u /* names this plan; the storage image must agree */
#define POET_BOARD "nrf52840"
#define POET_RAM_BYTES 262144u
#define POET_FLASH_BYTES 1048576u
#define POET_STACK_BYTES 4096u
#define POET_DCDC_INDUCTOR 1 /* 1 if the board has that of the chip's converter */
#define POET_CONSOLE_BAUD 1000000u /* of the serial line */
#define POET_ARENA_BYTES 47904u
#define POET_ARENA_ALIGNMENT 8u
#define POET_BLOCK_BYTES 512u /* one storage block */
#define POET_TRANSFERS 8u /* that may be under way at once */
#define POET_PAGE_BUFFER 20384u /* its offset in the arena */
#define POET_BATCH 4u
#define POET_X_BYTES 256u /* features of one sample */
#define POET_Y_BYTES 4u /* target of one sample */
#define POET_OUTPUT_BYTES 40u /* what is predicted of one sample */
#define POET_CLASSES 10 /* 0 where it does not classify */
#define POET_PAGES 10 /* transfers of a training step */
#define POET_LOSS P0011
#define POET_METRIC P0020
#define POET_X_MEMBERS {0u, 256u, 1} /* first byte, bytes, 1 for floats */
#define POET_Y_MEMBERS {0u, 4u, 0} /* first byte, bytes, 1 for floats */

extern uint8_t poet_arena[POET_ARENA_BYTES];

/* The tensors that live for the whole run, at the bottom of the arena. */
#define P0000 ((float *)(void *)(poet_arena + 0u)) /* conv1.weight [8,1,3,3] */
#define P0001 ((float *)(void *)(poet_arena + 288u)) /* bn1.affine [2,8] */
#define P0002 ((float *)(void *)(poet_arena + 352u)) /* bn1.running [2,8] */
#define P0003 ((float *)(void *)(poet_arena + 416u)) /* conv2.weight [8,8,3,3] */
#define P0004 ((float *)(void *)(poet_arena + 2720u)) /* bn2.affine [2,8] */
#define P0005 ((float *)(void *)(poet_arena + 2784u)) /* bn2.running [2,8] */
#define P0006 ((float *)(void *)(poet_arena + 2848u)) /* conv3.weight [16,8,3,3] */
#define P0007 ((float *)(void *)(poet_arena + 7456u)) /* bn3.affine [2,16] */
#define P0008 ((float *)(void *)(poet_arena + 7584u)) /* bn3.running [2,16] */
#define P0009 ((float *)(void *)(poet_arena + 7712u)) /* logits.weight [10,64] */
#define P0010 ((float *)(void *)(poet_arena + 10272u)) /* logits.bias [10] */
#define P0011 ((float *)(void *)(poet_arena + 10312u)) /* loss [1] */
#define P0012 ((float *)(void *)(poet_arena + 10320u)) /* logits.weight.momentum [10,64] */
#define P0013 ((float *)(void *)(poet_arena + 12880u)) /* logits.bias.momentum [10] */
#define P0014 ((float *)(void *)(poet_arena + 12920u)) /* bn3.affine.momentum [2,16] */
#define P0015 ((float *)(void *)(poet_arena + 13048u)) /* conv3.weight.momentum [16,8,3,3] */
#define P0016 ((float *)(void *)(poet_arena + 17656u)) /* bn2.affine.momentum [2,8] */
#define P0017 ((float *)(void *)(poet_arena + 17720u)) /* conv2.weight.momentum [8,8,3,3] */
#define P0018 ((float *)(void *)(poet_arena + 20024u)) /* bn1.affine.momentum [2,8] */
#define P0019 ((float *)(void *)(poet_arena + 20088u)) /* conv1.weight.momentum [8,1,3,3] */
#define P0020 ((float *)(void *)(poet_arena + 20376u)) /* metric [1] */

/* The slots: where tensors are in storage. */
#define SLOT_P0000 0u /* persistent: conv1.weight */
#define SLOT_P0001 1u /* persistent: bn1.affine */
#define SLOT_P0002 2u /* persistent: bn1.running */
#define SLOT_P0003 3u /* persistent: conv2.weight */
#define SLOT_P0004 4u /* persistent: bn2.affine */
#define SLOT_P0005 5u /* persistent: bn2.running */
#define SLOT_P0006 6u /* persistent: conv3.weight */
#define SLOT_P0007 7u /* persistent: bn3.affine */
#define SLOT_P0008 8u /* persistent: bn3.running */
#define SLOT_P0009 9u /* persistent: logits.weight */
#define SLOT_P0010 10u /* persistent: logits.bias */
#define SLOT_P0011 11u /* persistent: loss */
#define SLOT_P0012 12u /* persistent: logits.weight.momentum */
#define SLOT_P0013 13u /* persistent: logits.bias.momentum */
#define SLOT_P0014 14u /* persistent: bn3.affine.momentum */
#define SLOT_P0015 15u /* persistent: conv3.weight.momentum */
#define SLOT_P0016 16u /* persistent: bn2.affine.momentum */
#define SLOT_P0017 17u /* persistent: conv2.weight.momentum */
#define SLOT_P0018 18u /* persistent: bn1.affine.momentum */
#define SLOT_P0019 19u /* persistent: conv1.weight.momentum */
#define SLOT_P0020 20u /* persistent: metric */
#define SLOT_T0000 21u /* page: x */
#define SLOT_T0001 22u /* page: conv1 */
#define SLOT_T0004 23u /* page: relu1 */
#define SLOT_T0009 24u /* page: pool2 */
#define SLOT_T0010 25u /* page: conv3 */
#define CAPTURE_P0010 26u /* capture: logits.bias */
#define CAPTURE_P0007 27u /* capture: bn3.affine */
#define CAPTURE_P0004 28u /* capture: bn2.affine */
#define CAPTURE_P0003 29u /* capture: conv2.weight */
#define CAPTURE_P0001 30u /* capture: bn1.affine */
#define POET_SLOTS 31u
extern const struct poet_slot poet_slots[POET_SLOTS];

/* What is loaded at boot and committed. */
#define POET_PERSISTENTS 21u
extern const uint32_t poet_persistents[POET_PERSISTENTS];

#endif
