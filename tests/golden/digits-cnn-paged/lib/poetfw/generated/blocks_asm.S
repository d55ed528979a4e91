/* SPDX-License-Identifier: Apache-2.0 */
/* blocks_asm.S: the inner blocks of the tiles of digits-cnn on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 */
#include "assembly.h"
poet_tile_3x3_1x1_2f215851: 149 lines, 420b6abe
poet_tile_3x3_1x1_f75b8a09: 163 lines, b49eef8c
poet_tile_3x3_1x8_0c0b8530: 256 lines, 3d94b387
poet_tile_3x3_1x8_43689773: 245 lines, 80034390
poet_tile_3x3_1x8_92e49f01: 245 lines, 9b031638
poet_tile_3x3_2x4_a0d51946: 242 lines, fcaed60c
poet_tile_3x3_2x4_a7d8c5ea: 236 lines, 42f58873
poet_tile_sums_1x2x3_30edc2bf: 156 lines, d9ff0835
poet_tile_sums_1x2x3_869650b6: 87 lines, 500a9d36