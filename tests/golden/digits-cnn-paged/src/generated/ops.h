/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: the kernels' constants of digits-cnn on nrf52840, batch 4. Ops with the same ones share them.
 * Written by poetfw 0.1.0 (plan cf38b48c). Do not edit: change the plan and build again.
 */
#ifndef POET_OPS_H
#define POET_OPS_H

#include "accuracy.h"
#include "batch_norm.h"
#include "conv2d.h"
#include "linear.h"
#include "max_pool2d.h"
#include "relu.h"
#include "sgd.h"
#include "softmax_cross_entropy.h"

extern const struct poet_conv2d OP0000; /* conv1 */
extern const struct poet_batch_norm_statistics OP0001; /* bn1.statistics */
extern const struct poet_batch_norm_running OP0002; /* bn1.update_running */
extern const struct poet_batch_norm OP0003; /* bn1 */
extern const struct poet_relu OP0004; /* relu1 */
extern const struct poet_conv2d OP0005; /* conv2 */
extern const struct poet_max_pool2d OP0006; /* pool2 */
extern const struct poet_conv2d OP0007; /* conv3 */
extern const struct poet_batch_norm_statistics OP0008; /* bn3.statistics */
extern const struct poet_batch_norm_running OP0009; /* bn3.update_running */
extern const struct poet_batch_norm OP0010; /* bn3 */
extern const struct poet_relu OP0011; /* relu3 */
extern const struct poet_max_pool2d OP0012; /* pool3 */
extern const struct poet_linear OP0013; /* logits */
extern const struct poet_softmax_cross_entropy OP0014; /* loss */
extern const struct poet_linear_bias OP0015; /* logits.backward_bias */
extern const struct poet_linear_sgd OP0016; /* logits.weight.update */
extern const struct poet_sgd OP0017; /* logits.bias.update */
extern const struct poet_sgd OP0018; /* bn3.affine.update */
extern const struct poet_conv2d_sgd OP0019; /* conv3.weight.update */
extern const struct poet_sgd OP0020; /* bn2.affine.update */
extern const struct poet_sgd OP0021; /* conv2.weight.update */
extern const struct poet_conv2d_sgd OP0022; /* conv1.weight.update */
extern const struct poet_correct_count OP0023; /* metric */

#endif
