/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: the arena and the tables of digits-cnn on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 */
#include "poet.h"

#ifndef POETFW_ARENA
#define POETFW_ARENA
#endif

POETFW_ARENA _Alignas(POET_ARENA_ALIGNMENT) uint8_t poet_arena[POET_ARENA_BYTES];

_Static_assert(POET_ARENA_BYTES % POET_ARENA_ALIGNMENT == 0, "the arena is padded");
_Static_assert(POET_ARENA_BYTES + POET_STACK_BYTES <= POET_RAM_BYTES, "arena and stack fit the RAM");
_Static_assert(POET_PAGE_BUFFER + POET_BLOCK_BYTES <= POET_ARENA_BYTES, "the page buffer is inside");

/* first block in its set or, if it is in none, in the slots' region; bytes of payload */
const struct poet_slot poet_slots[POET_SLOTS] = {
    [SLOT_P0000] = {0u, 288u}, /* persistent: conv1.weight */
    [SLOT_P0001] = {1u, 64u}, /* persistent: bn1.affine */
    [SLOT_P0002] = {2u, 64u}, /* persistent: bn1.running */
    [SLOT_P0003] = {3u, 2304u}, /* persistent: conv2.weight */
    [SLOT_P0004] = {8u, 64u}, /* persistent: bn2.affine */
    [SLOT_P0005] = {9u, 64u}, /* persistent: bn2.running */
    [SLOT_P0006] = {10u, 4608u}, /* persistent: conv3.weight */
    [SLOT_P0007] = {20u, 128u}, /* persistent: bn3.affine */
    [SLOT_P0008] = {21u, 128u}, /* persistent: bn3.running */
    [SLOT_P0009] = {22u, 2560u}, /* persistent: logits.weight */
    [SLOT_P0010] = {28u, 40u}, /* persistent: logits.bias */
    [SLOT_P0011] = {29u, 4u}, /* persistent: loss */
    [SLOT_P0012] = {30u, 2560u}, /* persistent: logits.weight.momentum */
    [SLOT_P0013] = {36u, 40u}, /* persistent: logits.bias.momentum */
    [SLOT_P0014] = {37u, 128u}, /* persistent: bn3.affine.momentum */
    [SLOT_P0015] = {38u, 4608u}, /* persistent: conv3.weight.momentum */
    [SLOT_P0016] = {48u, 64u}, /* persistent: bn2.affine.momentum */
    [SLOT_P0017] = {49u, 2304u}, /* persistent: conv2.weight.momentum */
    [SLOT_P0018] = {54u, 64u}, /* persistent: bn1.affine.momentum */
    [SLOT_P0019] = {55u, 288u}, /* persistent: conv1.weight.momentum */
    [SLOT_P0020] = {56u, 4u}, /* persistent: metric */
    [SLOT_T0000] = {0u, 1024u}, /* page: x */
    [SLOT_T0001] = {3u, 8192u}, /* page: conv1 */
    [SLOT_T0004] = {20u, 8192u}, /* page: relu1 */
    [SLOT_T0009] = {37u, 2048u}, /* page: pool2 */
    [SLOT_T0010] = {42u, 4096u}, /* page: conv3 */
    [CAPTURE_P0010] = {51u, 40u}, /* capture: logits.bias */
    [CAPTURE_P0007] = {52u, 128u}, /* capture: bn3.affine */
    [CAPTURE_P0004] = {53u, 64u}, /* capture: bn2.affine */
    [CAPTURE_P0003] = {54u, 2304u}, /* capture: conv2.weight */
    [CAPTURE_P0001] = {59u, 64u}, /* capture: bn1.affine */
};

/* by slot, for the first slots are theirs: offset in the arena */
const uint32_t poet_persistents[POET_PERSISTENTS] = {
    [SLOT_P0000] = 0u, /* conv1.weight */
    [SLOT_P0001] = 288u, /* bn1.affine */
    [SLOT_P0002] = 352u, /* bn1.running */
    [SLOT_P0003] = 416u, /* conv2.weight */
    [SLOT_P0004] = 2720u, /* bn2.affine */
    [SLOT_P0005] = 2784u, /* bn2.running */
    [SLOT_P0006] = 2848u, /* conv3.weight */
    [SLOT_P0007] = 7456u, /* bn3.affine */
    [SLOT_P0008] = 7584u, /* bn3.running */
    [SLOT_P0009] = 7712u, /* logits.weight */
    [SLOT_P0010] = 10272u, /* logits.bias */
    [SLOT_P0011] = 10312u, /* loss */
    [SLOT_P0012] = 10320u, /* logits.weight.momentum */
    [SLOT_P0013] = 12880u, /* logits.bias.momentum */
    [SLOT_P0014] = 12920u, /* bn3.affine.momentum */
    [SLOT_P0015] = 13048u, /* conv3.weight.momentum */
    [SLOT_P0016] = 17656u, /* bn2.affine.momentum */
    [SLOT_P0017] = 17720u, /* conv2.weight.momentum */
    [SLOT_P0018] = 20024u, /* bn1.affine.momentum */
    [SLOT_P0019] = 20088u, /* conv1.weight.momentum */
    [SLOT_P0020] = 20376u, /* metric */
};
