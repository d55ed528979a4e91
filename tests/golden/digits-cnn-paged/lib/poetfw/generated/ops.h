/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: the kernels' constants of digits-cnn on nrf52840, batch 4. Ops with the same ones share them.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 */
#ifndef POET_OPS_H
#define POET_OPS_H

#include "accuracy.h"
#include "batch_norm.h"
#include "conv2d.h"
#include "linear.h"
#include "matmul.h"
#include "max_pool2d.h"
#include "relu.h"
#include "sgd.h"
#include "softmax_cross_entropy.h"
#include "update.h"

extern const struct poet_conv2d poet_op0000; /* conv1 */
extern const struct poet_batch_norm_statistics poet_op0001; /* bn1.statistics */
extern const struct poet_batch_norm_running poet_op0002; /* bn1.update_running */
extern const struct poet_batch_norm poet_op0003; /* bn1 */
extern const struct poet_relu poet_op0004; /* relu1 */
extern const struct poet_conv2d poet_op0005; /* conv2 */
extern const struct poet_max_pool2d poet_op0006; /* pool2 */
extern const struct poet_conv2d poet_op0007; /* conv3 */
extern const struct poet_batch_norm_statistics poet_op0008; /* bn3.statistics */
extern const struct poet_batch_norm_running poet_op0009; /* bn3.update_running */
extern const struct poet_batch_norm poet_op0010; /* bn3 */
extern const struct poet_relu poet_op0011; /* relu3 */
extern const struct poet_max_pool2d poet_op0012; /* pool3 */
extern const struct poet_matmul poet_op0013; /* logits */
extern const struct poet_softmax_cross_entropy poet_op0014; /* loss */
extern const struct poet_linear_bias poet_op0015; /* logits.backward_bias */
extern const struct poet_matmul poet_op0016; /* logits.backward_input */
extern const struct poet_matmul poet_op0017; /* logits.weight.update */
extern const struct poet_sgd poet_op0018; /* logits.weight.update */
extern const struct poet_conv2d poet_op0019; /* conv3.backward_input */
extern const struct poet_conv2d poet_op0020; /* conv3.weight.update */
extern const struct poet_conv2d poet_op0021; /* conv2.backward_weight */
extern const struct poet_conv2d poet_op0022; /* conv2.backward_input */
extern const struct poet_conv2d poet_op0023; /* conv1.weight.update */
extern const struct poet_correct_count poet_op0024; /* metric */
extern const struct poet_conv2d poet_op0025; /* conv1 */
extern const struct poet_batch_norm poet_op0026; /* bn1 */
extern const struct poet_relu poet_op0027; /* relu1 */
extern const struct poet_conv2d poet_op0028; /* conv2 */
extern const struct poet_max_pool2d poet_op0029; /* pool2 */
extern const struct poet_conv2d poet_op0030; /* conv3 */
extern const struct poet_batch_norm poet_op0031; /* bn3 */
extern const struct poet_relu poet_op0032; /* relu3 */
extern const struct poet_max_pool2d poet_op0033; /* pool3 */
extern const struct poet_matmul poet_op0034; /* logits */

#endif
