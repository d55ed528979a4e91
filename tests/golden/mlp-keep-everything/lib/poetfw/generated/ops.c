/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c: the kernels' constants of mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 */
#include "ops.h"

#include "tiles.h"

#if POET_HAS_VFP
extern poet_tile poet_tile_1x1_2x8_4f251eea;
extern poet_tile poet_tile_1x1_4x4_debeaa7e;
extern poet_tile poet_tile_sums_1x1x1_6343a11b;
extern poet_tile poet_tile_sums_1x1x1_a89e9df7;
extern poet_tile poet_tile_sums_2x4x1_317b47f6;
extern poet_tile poet_tile_sums_4x2x1_0b926037;

static const struct poet_tile_run poet_tiles0000_runs_0[] = {
    {0, 0, 0, 2, -256, -256, 0x0u},
};
static const struct poet_tile_loop poet_tiles0000_loops_0[] = {
    {2, 2, 2, 0, 256, 256, 0},
    {16, 4, 4, 256, 0, 4, 4},
};
static const struct poet_tiles poet_tiles0000[] = {
    {poet_tile_sums_4x2x1_0b926037, poet_tiles0000_runs_0, poet_tiles0000_loops_0, 1, 2, 0,
     {.dots = {.samples = 1, .groups = 8, .source_other = 256, .weight_other = 256, .put_source = 4, .put_weight = 256}}},
};


static const struct poet_tile_run poet_tiles0001_runs_0[] = {
    {0, 0, 0, 2, -256, -256, 0x0u},
};
static const struct poet_tile_loop poet_tiles0001_loops_0[] = {
    {2, 2, 2, 0, 256, 128, 0},
    {8, 4, 4, 256, 0, 4, 4},
};
static const struct poet_tiles poet_tiles0001[] = {
    {poet_tile_sums_4x2x1_0b926037, poet_tiles0001_runs_0, poet_tiles0001_loops_0, 1, 2, 0,
     {.dots = {.samples = 1, .groups = 8, .source_other = 256, .weight_other = 256, .put_source = 4, .put_weight = 128}}},
};


static const struct poet_tile_run poet_tiles0002_runs_0[] = {
    {0, 0, 0, 1, -128, -128, 0x0u},
};
static const struct poet_tile_loop poet_tiles0002_loops_0[] = {
    {5, 2, 2, 128, 0, 4, 4},
};
static const struct poet_tiles poet_tiles0002[] = {
    {poet_tile_sums_2x4x1_317b47f6, poet_tiles0002_runs_0, poet_tiles0002_loops_0, 1, 1, 0,
     {.dots = {.samples = 1, .groups = 16, .source_other = 128, .weight_other = 128, .put_source = 4, .put_weight = 40}}},
};


static const struct poet_tile_run poet_tiles0003_runs_0[] = {
    {0, 0, 0, 1, 128, 0, 0x0u},
};
static const struct poet_tiles poet_tiles0003[] = {
    {poet_tile_1x1_4x4_debeaa7e, poet_tiles0003_runs_0, NULL, 1, 0, 0,
     {.stencil = {.strips = 8, .channels = 5, .weight_other = 40, .result_other = 128, .source_strip = 16, .result_strip = 16, .source_row = 128, .result_row = 16}}},
};


static const struct poet_tile_run poet_tiles0004_runs_0[] = {
    {0, 0, 0, 1, 128, 40, 0x0u},
};
static const struct poet_tile_loop poet_tiles0004_loops_0[] = {
    {5, 2, 2, 0, 4, 0, 128},
    {2, 16, 16, 4, 0, 0, 4},
    {2, 16, 32, 0, 0, 0, 0},
};
static const struct poet_tiles poet_tiles0004[] = {
    {poet_tile_1x1_2x8_4f251eea, poet_tiles0004_runs_0, poet_tiles0004_loops_0, 1, 130, 0,
     {.stencil = {.strips = 2, .channels = 2, .weight_other = 4, .result_other = 64, .source_strip = 32, .result_strip = 32, .source_row = 64, .result_row = 32}}},
};


static const struct poet_tile_run poet_tiles0005_runs_0[] = {
    {0, 0, 0, 1, 256, 0, 0x0u},
};
static const struct poet_tiles poet_tiles0005[] = {
    {poet_tile_1x1_4x4_debeaa7e, poet_tiles0005_runs_0, NULL, 1, 0, 0,
     {.stencil = {.strips = 16, .channels = 16, .weight_other = 128, .result_other = 256, .source_strip = 16, .result_strip = 16, .source_row = 256, .result_row = 16}}},
};


static const struct poet_tile_run poet_tiles0006_runs_0[] = {
    {0, 0, 0, 1, 256, 256, 0x0u},
};
static const struct poet_tile_run poet_tiles0006_runs_1[] = {
    {192, 0, 0, 1, 256, 256, 0x0u},
};
static const struct poet_tile_loop poet_tiles0006_loops_0[] = {
    {32, 2, 2, 0, 4, 0, 256},
    {2, 24, 24, 4, 0, 0, 4},
    {2, 24, 64, 0, 0, 0, 0},
};
static const struct poet_tile_loop poet_tiles0006_loops_1[] = {
    {32, 2, 2, 0, 4, 0, 256},
    {2, 16, 64, 48, 0, 0, 0},
};
static const struct poet_tiles poet_tiles0006[] = {
    {poet_tile_1x1_2x8_4f251eea, poet_tiles0006_runs_0, poet_tiles0006_loops_0, 1, 130, 1,
     {.stencil = {.strips = 3, .channels = 2, .weight_other = 4, .result_other = 96, .source_strip = 32, .result_strip = 32, .source_row = 96, .result_row = 32}}},
    {poet_tile_1x1_2x8_4f251eea, poet_tiles0006_runs_1, poet_tiles0006_loops_1, 1, 129, 0,
     {.stencil = {.strips = 2, .channels = 2, .weight_other = 4, .result_other = 64, .source_strip = 32, .result_strip = 32, .source_row = 64, .result_row = 32}}},
};


static const struct poet_tile_run poet_tiles0007_runs_0[] = {
    {0, 0, 0, 1, 256, 128, 0x0u},
};
static const struct poet_tile_run poet_tiles0007_runs_1[] = {
    {192, 0, 0, 1, 256, 128, 0x0u},
};
static const struct poet_tile_loop poet_tiles0007_loops_0[] = {
    {16, 2, 2, 0, 4, 0, 256},
    {2, 24, 24, 4, 0, 0, 4},
    {2, 24, 64, 0, 0, 0, 0},
};
static const struct poet_tile_loop poet_tiles0007_loops_1[] = {
    {16, 2, 2, 0, 4, 0, 256},
    {2, 16, 64, 48, 0, 0, 0},
};
static const struct poet_tiles poet_tiles0007[] = {
    {poet_tile_1x1_2x8_4f251eea, poet_tiles0007_runs_0, poet_tiles0007_loops_0, 1, 130, 1,
     {.stencil = {.strips = 3, .channels = 2, .weight_other = 4, .result_other = 96, .source_strip = 32, .result_strip = 32, .source_row = 96, .result_row = 32}}},
    {poet_tile_1x1_2x8_4f251eea, poet_tiles0007_runs_1, poet_tiles0007_loops_1, 1, 129, 0,
     {.stencil = {.strips = 2, .channels = 2, .weight_other = 4, .result_other = 64, .source_strip = 32, .result_strip = 32, .source_row = 64, .result_row = 32}}},
};


static const struct poet_tile_run poet_tiles0008_runs_0[] = {
    {0, 0, 0, 2, -256, -256, 0x0u},
};
static const struct poet_tile_loop poet_tiles0008_loops_0[] = {
    {64, 1, 1, 256, 0, 4, 4},
};
static const struct poet_tiles poet_tiles0008[] = {
    {poet_tile_sums_1x1x1_a89e9df7, poet_tiles0008_runs_0, poet_tiles0008_loops_0, 1, 1, 0,
     {.dots = {.samples = 1, .groups = 16, .source_other = 256, .weight_other = 256, .put_source = 4, .put_weight = 256}}},
};


static const struct poet_tile_run poet_tiles0009_runs_0[] = {
    {0, 0, 0, 2, -256, -256, 0x0u},
};
static const struct poet_tile_loop poet_tiles0009_loops_0[] = {
    {32, 1, 1, 256, 0, 4, 4},
};
static const struct poet_tiles poet_tiles0009[] = {
    {poet_tile_sums_1x1x1_a89e9df7, poet_tiles0009_runs_0, poet_tiles0009_loops_0, 1, 1, 0,
     {.dots = {.samples = 1, .groups = 16, .source_other = 256, .weight_other = 256, .put_source = 4, .put_weight = 128}}},
};


static const struct poet_tile_run poet_tiles0010_runs_0[] = {
    {0, 0, 0, 1, -128, -128, 0x0u},
};
static const struct poet_tile_loop poet_tiles0010_loops_0[] = {
    {10, 1, 1, 128, 0, 4, 4},
};
static const struct poet_tiles poet_tiles0010[] = {
    {poet_tile_sums_1x1x1_6343a11b, poet_tiles0010_runs_0, poet_tiles0010_loops_0, 1, 1, 0,
     {.dots = {.samples = 1, .groups = 32, .source_other = 128, .weight_other = 128, .put_source = 4, .put_weight = 40}}},
};

#else
#define poet_tiles0000 NULL
#define poet_tiles0001 NULL
#define poet_tiles0002 NULL
#define poet_tiles0003 NULL
#define poet_tiles0004 NULL
#define poet_tiles0005 NULL
#define poet_tiles0006 NULL
#define poet_tiles0007 NULL
#define poet_tiles0008 NULL
#define poet_tiles0009 NULL
#define poet_tiles0010 NULL
#endif

/* hidden1 */
const struct poet_matmul poet_op0000 = {
    .batch = 1,
    .rows = 4,
    .inner = 64,
    .columns = 64,
    .a_row = 64,
    .a_column = 1,
    .b_row = 1,
    .b_column = 64,
    .y_row = 64,
    .y_column = 1,
    .run = 32,
    .tiles = poet_tiles0000,
};

/* relu1 */
const struct poet_relu poet_op0001 = {
    .elements = 256,
};

/* hidden2 */
const struct poet_matmul poet_op0002 = {
    .batch = 1,
    .rows = 4,
    .inner = 64,
    .columns = 32,
    .a_row = 64,
    .a_column = 1,
    .b_row = 1,
    .b_column = 64,
    .y_row = 32,
    .y_column = 1,
    .run = 32,
    .tiles = poet_tiles0001,
};

/* relu2 */
const struct poet_relu poet_op0003 = {
    .elements = 128,
};

/* logits */
const struct poet_matmul poet_op0004 = {
    .batch = 1,
    .rows = 4,
    .inner = 32,
    .columns = 10,
    .a_row = 32,
    .a_column = 1,
    .b_row = 1,
    .b_column = 32,
    .y_row = 10,
    .y_column = 1,
    .run = 32,
    .tiles = poet_tiles0002,
};

/* loss */
const struct poet_softmax_cross_entropy poet_op0005 = {
    .batch = 4,
    .classes = 10,
};

/* logits.backward_bias */
const struct poet_linear_bias poet_op0006 = {
    .batch = 4,
    .out_features = 10,
};

/* logits.bias.update */
const struct poet_sgd poet_op0007 = {
    .update.step = poet_sgd_step_f32,
    .update.learning_rate = 0x1.99999a0000000p-5f,
    .update.weight_decay = 0x0.0p+0f,
    .update.clip_value = 0x0.0p+0f,
    .update.share = 0x1.0000000000000p+0f,
    .momentum = 0x1.cccccc0000000p-1f,
    .nesterov = 0,
};

/* logits.backward_input */
const struct poet_matmul poet_op0008 = {
    .batch = 1,
    .rows = 4,
    .inner = 10,
    .columns = 32,
    .a_row = 10,
    .a_column = 1,
    .b_row = 32,
    .b_column = 1,
    .y_row = 32,
    .y_column = 1,
    .run = 10,
    .tiles = poet_tiles0003,
};

/* logits.weight.update */
const struct poet_matmul poet_op0009 = {
    .batch = 1,
    .rows = 10,
    .inner = 4,
    .columns = 32,
    .a_row = 1,
    .a_column = 10,
    .b_row = 32,
    .b_column = 1,
    .y_row = 32,
    .y_column = 1,
    .run = 4,
    .tiles = poet_tiles0004,
};

/* hidden2.backward_bias */
const struct poet_linear_bias poet_op0010 = {
    .batch = 4,
    .out_features = 32,
};

/* hidden2.backward_input */
const struct poet_matmul poet_op0011 = {
    .batch = 1,
    .rows = 4,
    .inner = 32,
    .columns = 64,
    .a_row = 32,
    .a_column = 1,
    .b_row = 64,
    .b_column = 1,
    .y_row = 64,
    .y_column = 1,
    .run = 32,
    .tiles = poet_tiles0005,
};

/* hidden1.weight.update */
const struct poet_matmul poet_op0012 = {
    .batch = 1,
    .rows = 64,
    .inner = 4,
    .columns = 64,
    .a_row = 1,
    .a_column = 64,
    .b_row = 64,
    .b_column = 1,
    .y_row = 64,
    .y_column = 1,
    .run = 4,
    .tiles = poet_tiles0006,
};

/* hidden1.backward_bias */
const struct poet_linear_bias poet_op0013 = {
    .batch = 4,
    .out_features = 64,
};

/* hidden2.weight.update */
const struct poet_matmul poet_op0014 = {
    .batch = 1,
    .rows = 32,
    .inner = 4,
    .columns = 64,
    .a_row = 1,
    .a_column = 32,
    .b_row = 64,
    .b_column = 1,
    .y_row = 64,
    .y_column = 1,
    .run = 4,
    .tiles = poet_tiles0007,
};

/* metric */
const struct poet_correct_count poet_op0015 = {
    .batch = 4,
    .classes = 10,
};

/* hidden1 */
const struct poet_matmul poet_op0016 = {
    .batch = 1,
    .rows = 1,
    .inner = 64,
    .columns = 64,
    .a_row = 64,
    .a_column = 1,
    .b_row = 1,
    .b_column = 64,
    .y_row = 64,
    .y_column = 1,
    .run = 32,
    .tiles = poet_tiles0008,
};

/* relu1 */
const struct poet_relu poet_op0017 = {
    .elements = 64,
};

/* hidden2 */
const struct poet_matmul poet_op0018 = {
    .batch = 1,
    .rows = 1,
    .inner = 64,
    .columns = 32,
    .a_row = 64,
    .a_column = 1,
    .b_row = 1,
    .b_column = 64,
    .y_row = 32,
    .y_column = 1,
    .run = 32,
    .tiles = poet_tiles0009,
};

/* relu2 */
const struct poet_relu poet_op0019 = {
    .elements = 32,
};

/* logits */
const struct poet_matmul poet_op0020 = {
    .batch = 1,
    .rows = 1,
    .inner = 32,
    .columns = 10,
    .a_row = 32,
    .a_column = 1,
    .b_row = 1,
    .b_column = 32,
    .y_row = 10,
    .y_column = 1,
    .run = 32,
    .tiles = poet_tiles0010,
};
