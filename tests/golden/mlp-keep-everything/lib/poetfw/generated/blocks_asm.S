/* SPDX-License-Identifier: Apache-2.0 */
/* blocks_asm.S: the inner blocks of the tiles of mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 */
#include "assembly.h"
poet_tile_1x1_2x8_353f4172: 158 lines, 302f3200
poet_tile_1x1_4x4_81c8dbf2: 161 lines, ce6f5a6b
poet_tile_sums_1x1x1_28f12db6: 56 lines, 1beb53eb
poet_tile_sums_1x1x1_2a00aa51: 72 lines, 1ee3272d
poet_tile_sums_2x4x1_c57eb71f: 125 lines, ca9de818
poet_tile_sums_4x2x1_142d0576: 157 lines, 0f8f0d08