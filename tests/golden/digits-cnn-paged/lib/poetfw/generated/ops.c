/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c: the kernels' constants of digits-cnn on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan a96d1ede). Do not edit: change the plan and build again.
 */
#include "ops.h"

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
const struct poet_linear poet_op0013 = {
    .batch = 4,
    .in_features = 64,
    .out_features = 10,
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

/* logits.weight.update */
const struct poet_sgd poet_op0016 = {
    .update.step = poet_sgd_step_f32,
    .update.learning_rate = 0x1.47ae140000000p-6f,
    .update.weight_decay = 0x0.0p+0f,
    .update.clip_value = 0x0.0p+0f,
    .update.share = 0x1.0000000000000p+0f,
    .momentum = 0x1.cccccc0000000p-1f,
    .nesterov = 0,
};

/* metric */
const struct poet_correct_count poet_op0017 = {
    .batch = 4,
    .classes = 10,
};

/* conv1 */
const struct poet_conv2d poet_op0018 = {
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
};

/* bn1 */
const struct poet_batch_norm poet_op0019 = {
    .batch = 1,
    .channels = 8,
    .height = 8,
    .width = 8,
    .eps = 0x1.4f8b580000000p-17f,
};

/* relu1 */
const struct poet_relu poet_op0020 = {
    .elements = 512,
};

/* conv2 */
const struct poet_conv2d poet_op0021 = {
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
};

/* pool2 */
const struct poet_max_pool2d poet_op0022 = {
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
const struct poet_conv2d poet_op0023 = {
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
};

/* bn3 */
const struct poet_batch_norm poet_op0024 = {
    .batch = 1,
    .channels = 16,
    .height = 4,
    .width = 4,
    .eps = 0x1.4f8b580000000p-17f,
};

/* relu3 */
const struct poet_relu poet_op0025 = {
    .elements = 256,
};

/* pool3 */
const struct poet_max_pool2d poet_op0026 = {
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
const struct poet_linear poet_op0027 = {
    .batch = 1,
    .in_features = 64,
    .out_features = 10,
};
