/* SPDX-License-Identifier: Apache-2.0 */
/* blocks_asm.S: the inner blocks of the tiles of mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 */
#include "assembly.h"
poet_tile_1x1_2x8_353f4172: 158 lines, 302f3200
poet_tile_1x1_4x4_81c8dbf2: 162 lines, 673d527b
poet_tile_sums_1x1x1_b9f904f3: 72 lines, 39e54358
poet_tile_sums_1x1x1_e6f0e8e6: 55 lines, 9f007d03
poet_tile_sums_2x4x1_715dd9fa: 125 lines, 89aee27b
poet_tile_sums_4x4x1_3e0fbfeb: 210 lines, a8b217f1