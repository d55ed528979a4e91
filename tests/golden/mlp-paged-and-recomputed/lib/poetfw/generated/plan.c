/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: the arena and the tables of mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan bdcd6b14). Do not edit: change the plan and build again.
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
    [SLOT_P0000] = {0u, 16384u}, /* persistent: hidden1.weight */
    [SLOT_P0001] = {33u, 256u}, /* persistent: hidden1.bias */
    [SLOT_P0002] = {34u, 8192u}, /* persistent: hidden2.weight */
    [SLOT_P0003] = {51u, 128u}, /* persistent: hidden2.bias */
    [SLOT_P0004] = {52u, 1280u}, /* persistent: logits.weight */
    [SLOT_P0005] = {55u, 40u}, /* persistent: logits.bias */
    [SLOT_P0006] = {56u, 4u}, /* persistent: loss */
    [SLOT_P0007] = {57u, 1280u}, /* persistent: logits.weight.momentum */
    [SLOT_P0008] = {60u, 40u}, /* persistent: logits.bias.momentum */
    [SLOT_P0009] = {61u, 8192u}, /* persistent: hidden2.weight.momentum */
    [SLOT_P0010] = {78u, 128u}, /* persistent: hidden2.bias.momentum */
    [SLOT_P0011] = {79u, 16384u}, /* persistent: hidden1.weight.momentum */
    [SLOT_P0012] = {112u, 256u}, /* persistent: hidden1.bias.momentum */
    [SLOT_P0013] = {113u, 4u}, /* persistent: metric */
    [SLOT_T0002] = {0u, 1024u}, /* page: relu1 */
    [SLOT_T0010] = {3u, 512u}, /* page: relu2.backward */
    [CAPTURE_P0005] = {5u, 40u}, /* capture: logits.bias */
    [CAPTURE_P0003] = {6u, 128u}, /* capture: hidden2.bias */
    [CAPTURE_P0001] = {7u, 256u}, /* capture: hidden1.bias */
};

/* by slot, for the first slots are theirs: offset in the arena */
const uint32_t poet_persistents[POET_PERSISTENTS] = {
    [SLOT_P0000] = 0u, /* hidden1.weight */
    [SLOT_P0001] = 16384u, /* hidden1.bias */
    [SLOT_P0002] = 16640u, /* hidden2.weight */
    [SLOT_P0003] = 24832u, /* hidden2.bias */
    [SLOT_P0004] = 24960u, /* logits.weight */
    [SLOT_P0005] = 26240u, /* logits.bias */
    [SLOT_P0006] = 26280u, /* loss */
    [SLOT_P0007] = 26288u, /* logits.weight.momentum */
    [SLOT_P0008] = 27568u, /* logits.bias.momentum */
    [SLOT_P0009] = 27608u, /* hidden2.weight.momentum */
    [SLOT_P0010] = 35800u, /* hidden2.bias.momentum */
    [SLOT_P0011] = 35928u, /* hidden1.weight.momentum */
    [SLOT_P0012] = 52312u, /* hidden1.bias.momentum */
    [SLOT_P0013] = 52568u, /* metric */
};
