/* SPDX-License-Identifier: Apache-2.0 */
/* blocks_asm.S: the inner blocks of the tiles of mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 */
#include "assembly.h"
poet_tile_1x1_2x8_4f251eea: 158 lines, 622dbbb0
poet_tile_1x1_4x4_debeaa7e: 161 lines, 8d6883ac
poet_tile_sums_1x1x1_6343a11b: 56 lines, 9420c59e
poet_tile_sums_1x1x1_a89e9df7: 72 lines, 5164129f
poet_tile_sums_2x4x1_317b47f6: 125 lines, b5fcfda0
poet_tile_sums_4x2x1_0b926037: 157 lines, 1dbe8f07