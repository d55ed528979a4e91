/* SPDX-License-Identifier: Apache-2.0 */
/* blocks_asm.S: the inner blocks of the tiles of digits-cnn on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 */
#include "assembly.h"
poet_tile_1x1_1x8_db5d0b84: 93 lines, a8e0c859
poet_tile_1x1_2x4_434ca9ff: 97 lines, 7f3435a4
poet_tile_3x3_1x8_48bd1610: 245 lines, 12734886
poet_tile_3x3_1x8_7e179bea: 244 lines, 62751d3a
poet_tile_3x3_1x8_d69bc693: 251 lines, 47826cf0
poet_tile_3x3_2x4_654c2d5c: 242 lines, fcc269f4
poet_tile_3x3_2x4_fb805c7e: 237 lines, e23fb7e4
poet_tile_sums_1x1x1_9bb73fb3: 70 lines, 2f2f6fa3
poet_tile_sums_1x2x3_62bf789c: 109 lines, b3025f04
poet_tile_sums_1x2x3_ae19f18c: 158 lines, 43de5b78
poet_tile_sums_2x2x1_52f709aa: 87 lines, bec5c63e