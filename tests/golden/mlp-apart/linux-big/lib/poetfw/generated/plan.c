/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: the arena and the tables of mlp on linux, batch 4.
 * Written by poetfw 0.1.0 (plan b081199a). Do not edit: change the plan and build again.
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
    [SLOT_P0012] = {57u, 256u}, /* persistent: hidden1.bias.momentum */
    [SLOT_P0013] = {58u, 4u}, /* persistent: metric */
    [CAPTURE_P0001] = {0u, 256u}, /* capture: hidden1.bias */
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
    [SLOT_P0012] = 26288u, /* hidden1.bias.momentum */
    [SLOT_P0013] = 26544u, /* metric */
};

/* offset in the arena, bytes, whether it arrives */
const struct poet_message poet_messages[POET_MESSAGES + 1u] = {
    {0u, 0u, 0u}, /* none has this number */
    {27064u, 1024u, 0u}, /* x to linux-small */
    {27064u, 1024u, 1u}, /* hidden1 from linux-small */
    {28088u, 512u, 0u}, /* relu2 to linux-small */
    {28600u, 160u, 1u}, /* logits from linux-small */
    {28760u, 40u, 0u}, /* logits.backward_bias to linux-small */
    {28600u, 160u, 0u}, /* loss.backward to linux-small */
    {24960u, 1280u, 1u}, /* logits.weight from linux-small */
    {28088u, 128u, 0u}, /* hidden2.backward_bias to linux-small */
    {24832u, 128u, 1u}, /* hidden2.bias from linux-small */
    {27064u, 1024u, 0u}, /* relu1 to linux-small */
    {28088u, 1024u, 0u}, /* hidden2.backward_input to linux-small */
    {27064u, 256u, 1u}, /* hidden1.backward_bias from linux-small */
    {16384u, 256u, 0u}, /* hidden1.bias to linux-small */
    {29112u, 512u, 0u}, /* logits.backward_input to linux-small */
    {16640u, 8192u, 1u}, /* hidden2.weight from linux-small */
    {0u, 16384u, 1u}, /* hidden1.weight from linux-small */
    {26240u, 40u, 1u}, /* logits.bias from linux-small */
};
