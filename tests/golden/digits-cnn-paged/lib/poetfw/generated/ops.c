/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c: the kernels' constants of digits-cnn on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 */
#include "ops.h"

#include "tiles.h"

#if POET_HAS_VFP
extern poet_tile poet_tile_1x1_1x8_db5d0b84;
extern poet_tile poet_tile_1x1_2x4_434ca9ff;
extern poet_tile poet_tile_3x3_1x8_48bd1610;
extern poet_tile poet_tile_3x3_1x8_7e179bea;
extern poet_tile poet_tile_3x3_1x8_d69bc693;
extern poet_tile poet_tile_3x3_2x4_654c2d5c;
extern poet_tile poet_tile_3x3_2x4_fb805c7e;
extern poet_tile poet_tile_sums_1x1x1_9bb73fb3;
extern poet_tile poet_tile_sums_1x2x3_62bf789c;
extern poet_tile poet_tile_sums_1x2x3_ae19f18c;
extern poet_tile poet_tile_sums_2x2x1_52f709aa;

static const struct poet_tile_run poet_tiles0000_runs_0[] = {
    {0, 12, 0, 1, -32, 224, 0x10000001u},
    {0, 0, 32, 6, -192, 64, 0x0u},
    {192, 0, 224, 1, -32, 224, 0x10000001u},
};
static const struct poet_tile_loop poet_tiles0000_loops_0[] = {
    {4, 1, 1, 256, 0, 2048, 0},
};
static const struct poet_tiles poet_tiles0000[] = {
    {poet_tile_3x3_1x8_d69bc693, poet_tiles0000_runs_0, poet_tiles0000_loops_0, 3, 1, 0,
     {.stencil = {.row_step = 32, .strips = 1, .channels = 8, .weight_other = 36, .result_other = 32, .source_row = 32, .result_row = 32}}},
};


static const struct poet_tile_run poet_tiles0001_runs_0[] = {
    {0, 12, 0, 1, 224, 12, 0x10000001u},
    {0, 0, 32, 6, 192, 0, 0x0u},
    {192, 0, 224, 1, 224, 12, 0x10000001u},
};
static const struct poet_tile_loop poet_tiles0001_loops_0[] = {
    {8, 1, 1, 0, 288, 256, 0},
    {4, 1, 1, 2048, 0, 2048, 0},
};
static const struct poet_tiles poet_tiles0001[] = {
    {poet_tile_3x3_1x8_48bd1610, poet_tiles0001_runs_0, poet_tiles0001_loops_0, 3, 2, 0,
     {.stencil = {.row_step = 32, .strips = 1, .channels = 8, .result_other = 32, .source_row = 32, .result_row = 32}}},
};


static const struct poet_tile_run poet_tiles0002_runs_0[] = {
    {0, 12, 0, 1, 48, 12, 0x10000001u},
    {0, 0, 16, 2, 32, 0, 0x0u},
    {32, 0, 48, 1, 48, 12, 0x10000001u},
};
static const struct poet_tile_loop poet_tiles0002_loops_0[] = {
    {8, 2, 2, 0, 288, 64, 0},
    {4, 1, 1, 512, 0, 1024, 0},
};
static const struct poet_tiles poet_tiles0002[] = {
    {poet_tile_3x3_2x4_fb805c7e, poet_tiles0002_runs_0, poet_tiles0002_loops_0, 3, 2, 0,
     {.stencil = {.row_step = 16, .strips = 1, .channels = 8, .weight_other = 288, .result_other = 64, .source_row = 16, .result_row = 16}}},
};


static const struct poet_tile_run poet_tiles0003_runs_0[] = {
    {0, 0, 0, 2, -256, -256, 0x0u},
};
static const struct poet_tile_loop poet_tiles0003_loops_0[] = {
    {2, 2, 2, 0, 256, 40, 0},
    {5, 2, 2, 256, 0, 4, 4},
};
static const struct poet_tiles poet_tiles0003[] = {
    {poet_tile_sums_2x2x1_52f709aa, poet_tiles0003_runs_0, poet_tiles0003_loops_0, 1, 2, 0,
     {.dots = {.samples = 1, .groups = 16, .source_other = 256, .weight_other = 256, .put_source = 4, .put_weight = 40}}},
};


static const struct poet_tile_run poet_tiles0004_runs_0[] = {
    {0, 0, 0, 1, 256, 0, 0x0u},
};
static const struct poet_tile_loop poet_tiles0004_loops_0[] = {
    {4, 1, 1, 0, 40, 256, 0},
};
static const struct poet_tiles poet_tiles0004[] = {
    {poet_tile_1x1_1x8_db5d0b84, poet_tiles0004_runs_0, poet_tiles0004_loops_0, 1, 1, 0,
     {.stencil = {.strips = 8, .channels = 10, .result_other = 256, .source_strip = 32, .result_strip = 32, .source_row = 256, .result_row = 32}}},
};


static const struct poet_tile_run poet_tiles0005_runs_0[] = {
    {0, 0, 0, 1, 256, 40, 0x0u},
};
static const struct poet_tile_loop poet_tiles0005_loops_0[] = {
    {5, 2, 2, 0, 4, 0, 256},
    {4, 16, 16, 4, 0, 0, 4},
    {2, 16, 64, 0, 0, 0, 0},
};
static const struct poet_tiles poet_tiles0005[] = {
    {poet_tile_1x1_2x4_434ca9ff, poet_tiles0005_runs_0, poet_tiles0005_loops_0, 1, 130, 0,
     {.stencil = {.strips = 4, .channels = 4, .weight_other = 4, .result_other = 64, .source_strip = 16, .result_strip = 16, .source_row = 64, .result_row = 16}}},
};


static const struct poet_tile_run poet_tiles0006_runs_0[] = {
    {16, 0, 0, 1, 80, 264, 0x10000001u},
    {32, 0, 16, 2, 96, 252, 0x0u},
    {48, 12, 48, 1, 80, 264, 0x10000001u},
};
static const struct poet_tile_loop poet_tiles0006_loops_0[] = {
    {4, 2, 2, 0, 36, 64, 0},
    {4, 1, 1, 1024, 0, 512, 0},
};
static const struct poet_tiles poet_tiles0006[] = {
    {poet_tile_3x3_2x4_654c2d5c, poet_tiles0006_runs_0, poet_tiles0006_loops_0, 3, 2, 0,
     {.stencil = {.row_step = -16, .strips = 1, .channels = 16, .weight_other = 36, .result_other = 64, .source_row = 16, .result_row = 16}}},
};


static const struct poet_tile_run poet_tiles0007_runs_0[] = {
    {0, 16, 0, 3, 464, 976, 0x0u},
    {0, 0, 12, 4, 448, 960, 0x0u},
    {16, 0, 24, 3, 464, 976, 0x0u},
};
static const struct poet_tile_loop poet_tiles0007_loops_0[] = {
    {8, 2, 2, 0, 64, 0, 288},
    {8, 1, 1, 64, 0, 0, 36},
    {2, 9, 72, 0, 0, 0, 0},
};
static const struct poet_tiles poet_tiles0007[] = {
    {poet_tile_sums_1x2x3_62bf789c, poet_tiles0007_runs_0, poet_tiles0007_loops_0, 3, 130, 0,
     {.dots = {.samples = 4, .groups = 1, .source_other = 64, .weight_other = 64, .put_source = 36, .put_weight = 36}}},
};


static const struct poet_tile_run poet_tiles0008_runs_0[] = {
    {0, 32, 0, 7, 1824, 1824, 0x0u},
    {0, 0, 12, 8, 1792, 1792, 0x0u},
    {32, 0, 24, 7, 1824, 1824, 0x0u},
};
static const struct poet_tile_loop poet_tiles0008_loops_0[] = {
    {4, 2, 2, 0, 256, 288, 0},
    {8, 1, 1, 256, 0, 36, 0},
};
static const struct poet_tiles poet_tiles0008[] = {
    {poet_tile_sums_1x2x3_ae19f18c, poet_tiles0008_runs_0, poet_tiles0008_loops_0, 3, 2, 0,
     {.dots = {.samples = 4, .groups = 1, .source_other = 256, .weight_other = 256, .put_source = 36, .put_weight = 288}}},
};


static const struct poet_tile_run poet_tiles0009_runs_0[] = {
    {32, 0, 0, 1, 288, 264, 0x10000001u},
    {64, 0, 32, 6, 320, 252, 0x0u},
    {224, 12, 224, 1, 288, 264, 0x10000001u},
};
static const struct poet_tile_loop poet_tiles0009_loops_0[] = {
    {8, 1, 1, 0, 36, 256, 0},
    {4, 1, 1, 2048, 0, 2048, 0},
};
static const struct poet_tiles poet_tiles0009[] = {
    {poet_tile_3x3_1x8_7e179bea, poet_tiles0009_runs_0, poet_tiles0009_loops_0, 3, 2, 0,
     {.stencil = {.row_step = -32, .strips = 1, .channels = 8, .result_other = 32, .source_row = 32, .result_row = 32}}},
};


static const struct poet_tile_run poet_tiles0010_runs_0[] = {
    {0, 32, 0, 7, 32, 1824, 0x0u},
    {0, 0, 12, 8, 0, 1792, 0x0u},
    {32, 0, 24, 7, 32, 1824, 0x0u},
};
static const struct poet_tile_loop poet_tiles0010_loops_0[] = {
    {4, 2, 2, 0, 256, 0, 36},
    {1, 18, 0, 0, 0, 0, 0},
};
static const struct poet_tiles poet_tiles0010[] = {
    {poet_tile_sums_1x2x3_ae19f18c, poet_tiles0010_runs_0, poet_tiles0010_loops_0, 3, 129, 0,
     {.dots = {.samples = 4, .groups = 1, .source_other = 256, .weight_other = 256, .put_source = 36, .put_weight = 36}}},
};


static const struct poet_tile_run poet_tiles0011_runs_0[] = {
    {0, 12, 0, 1, -32, 224, 0x10000001u},
    {0, 0, 32, 6, -192, 64, 0x0u},
    {192, 0, 224, 1, -32, 224, 0x10000001u},
};
static const struct poet_tiles poet_tiles0011[] = {
    {poet_tile_3x3_1x8_d69bc693, poet_tiles0011_runs_0, NULL, 3, 0, 0,
     {.stencil = {.row_step = 32, .strips = 1, .channels = 8, .weight_other = 36, .result_other = 32, .source_row = 32, .result_row = 32}}},
};


static const struct poet_tile_run poet_tiles0012_runs_0[] = {
    {0, 12, 0, 1, 224, 12, 0x10000001u},
    {0, 0, 32, 6, 192, 0, 0x0u},
    {192, 0, 224, 1, 224, 12, 0x10000001u},
};
static const struct poet_tile_loop poet_tiles0012_loops_0[] = {
    {8, 1, 1, 0, 288, 256, 0},
};
static const struct poet_tiles poet_tiles0012[] = {
    {poet_tile_3x3_1x8_48bd1610, poet_tiles0012_runs_0, poet_tiles0012_loops_0, 3, 1, 0,
     {.stencil = {.row_step = 32, .strips = 1, .channels = 8, .result_other = 32, .source_row = 32, .result_row = 32}}},
};


static const struct poet_tile_run poet_tiles0013_runs_0[] = {
    {0, 12, 0, 1, 48, 12, 0x10000001u},
    {0, 0, 16, 2, 32, 0, 0x0u},
    {32, 0, 48, 1, 48, 12, 0x10000001u},
};
static const struct poet_tile_loop poet_tiles0013_loops_0[] = {
    {8, 2, 2, 0, 288, 64, 0},
};
static const struct poet_tiles poet_tiles0013[] = {
    {poet_tile_3x3_2x4_fb805c7e, poet_tiles0013_runs_0, poet_tiles0013_loops_0, 3, 1, 0,
     {.stencil = {.row_step = 16, .strips = 1, .channels = 8, .weight_other = 288, .result_other = 64, .source_row = 16, .result_row = 16}}},
};


static const struct poet_tile_run poet_tiles0014_runs_0[] = {
    {0, 0, 0, 2, -256, -256, 0x0u},
};
static const struct poet_tile_loop poet_tiles0014_loops_0[] = {
    {10, 1, 1, 256, 0, 4, 4},
};
static const struct poet_tiles poet_tiles0014[] = {
    {poet_tile_sums_1x1x1_9bb73fb3, poet_tiles0014_runs_0, poet_tiles0014_loops_0, 1, 1, 0,
     {.dots = {.samples = 1, .groups = 32, .source_other = 256, .weight_other = 256, .put_source = 4, .put_weight = 40}}},
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
#define poet_tiles0011 NULL
#define poet_tiles0012 NULL
#define poet_tiles0013 NULL
#define poet_tiles0014 NULL
#endif

/* conv1 */
const struct poet_conv2d poet_op0000 = {
    .batch = 4,
    .groups = 1,
    .in_channels = 1,
    .in_height = 8,
    .in_width = 8,
    .out_channels = 8,
    .out_height = 8,
    .out_width = 8,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0000,
};

/* bn1.statistics */
const struct poet_batch_norm_statistics poet_op0001 = {
    .batch = 4,
    .channels = 8,
    .height = 8,
    .width = 8,
};

/* bn1.update_running */
const struct poet_batch_norm_running poet_op0002 = {
    .channels = 8,
    .count = 256,
    .momentum = 0x1.99999a0000000p-4f,
};

/* bn1 */
const struct poet_batch_norm poet_op0003 = {
    .batch = 4,
    .channels = 8,
    .height = 8,
    .width = 8,
    .eps = 0x1.4f8b580000000p-17f,
};

/* relu1 */
const struct poet_relu poet_op0004 = {
    .elements = 2048,
};

/* conv2 */
const struct poet_conv2d poet_op0005 = {
    .batch = 4,
    .groups = 1,
    .in_channels = 8,
    .in_height = 8,
    .in_width = 8,
    .out_channels = 8,
    .out_height = 8,
    .out_width = 8,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0001,
};

/* pool2 */
const struct poet_max_pool2d poet_op0006 = {
    .planes = 32,
    .in_height = 8,
    .in_width = 8,
    .out_height = 4,
    .out_width = 4,
    .kernel_height = 2,
    .kernel_width = 2,
    .stride_height = 2,
    .stride_width = 2,
    .padding_top = 0,
    .padding_left = 0,
};

/* conv3 */
const struct poet_conv2d poet_op0007 = {
    .batch = 4,
    .groups = 1,
    .in_channels = 8,
    .in_height = 4,
    .in_width = 4,
    .out_channels = 16,
    .out_height = 4,
    .out_width = 4,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0002,
};

/* bn3.statistics */
const struct poet_batch_norm_statistics poet_op0008 = {
    .batch = 4,
    .channels = 16,
    .height = 4,
    .width = 4,
};

/* bn3.update_running */
const struct poet_batch_norm_running poet_op0009 = {
    .channels = 16,
    .count = 64,
    .momentum = 0x1.99999a0000000p-4f,
};

/* bn3 */
const struct poet_batch_norm poet_op0010 = {
    .batch = 4,
    .channels = 16,
    .height = 4,
    .width = 4,
    .eps = 0x1.4f8b580000000p-17f,
};

/* relu3 */
const struct poet_relu poet_op0011 = {
    .elements = 1024,
};

/* pool3 */
const struct poet_max_pool2d poet_op0012 = {
    .planes = 64,
    .in_height = 4,
    .in_width = 4,
    .out_height = 2,
    .out_width = 2,
    .kernel_height = 2,
    .kernel_width = 2,
    .stride_height = 2,
    .stride_width = 2,
    .padding_top = 0,
    .padding_left = 0,
};

/* logits */
const struct poet_matmul poet_op0013 = {
    .batch = 1,
    .rows = 4,
    .inner = 64,
    .columns = 10,
    .a_row = 64,
    .a_column = 1,
    .b_row = 1,
    .b_column = 64,
    .y_row = 10,
    .y_column = 1,
    .run = 32,
    .tiles = poet_tiles0003,
};

/* loss */
const struct poet_softmax_cross_entropy poet_op0014 = {
    .batch = 4,
    .classes = 10,
};

/* logits.backward_bias */
const struct poet_linear_bias poet_op0015 = {
    .batch = 4,
    .out_features = 10,
};

/* logits.backward_input */
const struct poet_matmul poet_op0016 = {
    .batch = 1,
    .rows = 4,
    .inner = 10,
    .columns = 64,
    .a_row = 10,
    .a_column = 1,
    .b_row = 64,
    .b_column = 1,
    .y_row = 64,
    .y_column = 1,
    .run = 10,
    .tiles = poet_tiles0004,
};

/* logits.weight.update */
const struct poet_matmul poet_op0017 = {
    .batch = 1,
    .rows = 10,
    .inner = 4,
    .columns = 64,
    .a_row = 1,
    .a_column = 10,
    .b_row = 64,
    .b_column = 1,
    .y_row = 64,
    .y_column = 1,
    .run = 4,
    .tiles = poet_tiles0005,
};

/* logits.weight.update */
const struct poet_sgd poet_op0018 = {
    .update.step = poet_sgd_step_f32,
    .update.learning_rate = 0x1.47ae140000000p-6f,
    .update.weight_decay = 0x0.0p+0f,
    .update.clip_value = 0x0.0p+0f,
    .update.share = 0x1.0000000000000p+0f,
    .momentum = 0x1.cccccc0000000p-1f,
    .nesterov = 0,
};

/* conv3.backward_input */
const struct poet_conv2d poet_op0019 = {
    .batch = 4,
    .groups = 1,
    .in_channels = 8,
    .in_height = 4,
    .in_width = 4,
    .out_channels = 16,
    .out_height = 4,
    .out_width = 4,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0006,
};

/* conv3.weight.update */
const struct poet_conv2d poet_op0020 = {
    .batch = 4,
    .groups = 1,
    .in_channels = 8,
    .in_height = 4,
    .in_width = 4,
    .out_channels = 16,
    .out_height = 4,
    .out_width = 4,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0007,
};

/* conv2.backward_weight */
const struct poet_conv2d poet_op0021 = {
    .batch = 4,
    .groups = 1,
    .in_channels = 8,
    .in_height = 8,
    .in_width = 8,
    .out_channels = 8,
    .out_height = 8,
    .out_width = 8,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0008,
};

/* conv2.backward_input */
const struct poet_conv2d poet_op0022 = {
    .batch = 4,
    .groups = 1,
    .in_channels = 8,
    .in_height = 8,
    .in_width = 8,
    .out_channels = 8,
    .out_height = 8,
    .out_width = 8,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0009,
};

/* conv1.weight.update */
const struct poet_conv2d poet_op0023 = {
    .batch = 4,
    .groups = 1,
    .in_channels = 1,
    .in_height = 8,
    .in_width = 8,
    .out_channels = 8,
    .out_height = 8,
    .out_width = 8,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0010,
};

/* metric */
const struct poet_correct_count poet_op0024 = {
    .batch = 4,
    .classes = 10,
};

/* conv1 */
const struct poet_conv2d poet_op0025 = {
    .batch = 1,
    .groups = 1,
    .in_channels = 1,
    .in_height = 8,
    .in_width = 8,
    .out_channels = 8,
    .out_height = 8,
    .out_width = 8,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0011,
};

/* bn1 */
const struct poet_batch_norm poet_op0026 = {
    .batch = 1,
    .channels = 8,
    .height = 8,
    .width = 8,
    .eps = 0x1.4f8b580000000p-17f,
};

/* relu1 */
const struct poet_relu poet_op0027 = {
    .elements = 512,
};

/* conv2 */
const struct poet_conv2d poet_op0028 = {
    .batch = 1,
    .groups = 1,
    .in_channels = 8,
    .in_height = 8,
    .in_width = 8,
    .out_channels = 8,
    .out_height = 8,
    .out_width = 8,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0012,
};

/* pool2 */
const struct poet_max_pool2d poet_op0029 = {
    .planes = 8,
    .in_height = 8,
    .in_width = 8,
    .out_height = 4,
    .out_width = 4,
    .kernel_height = 2,
    .kernel_width = 2,
    .stride_height = 2,
    .stride_width = 2,
    .padding_top = 0,
    .padding_left = 0,
};

/* conv3 */
const struct poet_conv2d poet_op0030 = {
    .batch = 1,
    .groups = 1,
    .in_channels = 8,
    .in_height = 4,
    .in_width = 4,
    .out_channels = 16,
    .out_height = 4,
    .out_width = 4,
    .kernel_height = 3,
    .kernel_width = 3,
    .stride_height = 1,
    .stride_width = 1,
    .padding_top = 1,
    .padding_left = 1,
    .tiles = poet_tiles0013,
};

/* bn3 */
const struct poet_batch_norm poet_op0031 = {
    .batch = 1,
    .channels = 16,
    .height = 4,
    .width = 4,
    .eps = 0x1.4f8b580000000p-17f,
};

/* relu3 */
const struct poet_relu poet_op0032 = {
    .elements = 256,
};

/* pool3 */
const struct poet_max_pool2d poet_op0033 = {
    .planes = 16,
    .in_height = 4,
    .in_width = 4,
    .out_height = 2,
    .out_width = 2,
    .kernel_height = 2,
    .kernel_width = 2,
    .stride_height = 2,
    .stride_width = 2,
    .padding_top = 0,
    .padding_left = 0,
};

/* logits */
const struct poet_matmul poet_op0034 = {
    .batch = 1,
    .rows = 1,
    .inner = 64,
    .columns = 10,
    .a_row = 64,
    .a_column = 1,
    .b_row = 1,
    .b_column = 64,
    .y_row = 10,
    .y_column = 1,
    .run = 32,
    .tiles = poet_tiles0014,
};
