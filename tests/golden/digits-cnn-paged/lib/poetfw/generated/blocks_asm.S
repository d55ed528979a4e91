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
poet_tile_sums_1x1x1_c42c7ab6: 70 lines, 86c2fb06
poet_tile_sums_1x2x3_e294f4eb: 157 lines, 8249e679
poet_tile_sums_1x2x3_ecc5bbf5: 110 lines, 9ad25624
poet_tile_sums_2x2x1_77c1ba99: 87 lines, 9b3eb301