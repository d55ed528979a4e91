/* SPDX-License-Identifier: Apache-2.0 */
#include "poet.h"

_Alignas(POET_ARENA_ALIGNMENT) uint8_t poet_arena[POET_ARENA_BYTES];

const struct poet_slot poet_slots[POET_SLOTS] = {
    [SLOT_T0000] = {0u, 4u},
    [SLOT_T0003] = {0u, T0003_BYTES},
    [SLOT_T0005] = {1u, T0005_BYTES},
    [SLOT_T0001] = {2u, T0001_BYTES},
};

const uint32_t poet_persistents[POET_PERSISTENTS] = {
    [SLOT_T0000] = 512u,
};
