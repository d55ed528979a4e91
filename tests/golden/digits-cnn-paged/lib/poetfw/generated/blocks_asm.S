/* SPDX-License-Identifier: Apache-2.0 */
/* blocks_asm.S: the inner blocks of the tiles of digits-cnn on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 */
#include "assembly.h"
poet_tile_1x1_1x8_25f30aad: 93 lines, f43d387a
poet_tile_1x1_2x4_30b52dc6: 97 lines, c634bc27
poet_tile_3x3_1x8_18a2a7b2: 245 lines, c33f400d
poet_tile_3x3_1x8_53586eec: 244 lines, 9fd3f263
poet_tile_3x3_1x8_ca8efd95: 256 lines, f503bd4d
poet_tile_3x3_2x4_822c4410: 242 lines, 948addbf
poet_tile_3x3_2x4_e66e6089: 237 lines, 29a37db6
poet_tile_sums_1x1x1_47061326: 70 lines, 62a17a5e
poet_tile_sums_1x2x3_876c2fe9: 157 lines, 02df7345
poet_tile_sums_1x2x3_ca727c3f: 110 lines, 935348c6
poet_tile_sums_2x2x1_5199ca58: 87 lines, 6852df4d