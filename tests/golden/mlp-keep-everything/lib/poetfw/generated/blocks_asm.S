/* SPDX-License-Identifier: Apache-2.0 */
/* blocks_asm.S: the inner blocks of the tiles of mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 */
#include "assembly.h"
poet_tile_1x1_2x8_353f4172: 158 lines, 302f3200
poet_tile_1x1_4x4_81c8dbf2: 161 lines, ce6f5a6b
poet_tile_sums_1x1x1_14f0c545: 56 lines, 72a941f3
poet_tile_sums_1x1x1_bcc428c9: 72 lines, 926b1e72
poet_tile_sums_2x4x1_b36f4889: 125 lines, 97676f16
poet_tile_sums_4x4x1_ab3c9cec: 210 lines, 6190056c