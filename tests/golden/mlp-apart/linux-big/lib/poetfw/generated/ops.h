/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: the kernels' constants of mlp on linux, batch 4. Ops with the same ones share them.
 * Written by poetfw 0.1.0 (plan b081199a). Do not edit: change the plan and build again.
 */
#ifndef POET_OPS_H
#define POET_OPS_H

#include "accuracy.h"
#include "linear.h"
#include "matmul.h"
#include "relu.h"
#include "sgd.h"
#include "softmax_cross_entropy.h"
#include "update.h"

extern const struct poet_relu poet_op0000; /* relu1 */
extern const struct poet_matmul poet_op0001; /* hidden2 */
extern const struct poet_relu poet_op0002; /* relu2 */
extern const struct poet_softmax_cross_entropy poet_op0003; /* loss.backward */
extern const struct poet_linear_bias poet_op0004; /* logits.backward_bias */
extern const struct poet_matmul poet_op0005; /* logits.backward_input */
extern const struct poet_linear_bias poet_op0006; /* hidden2.backward_bias */
extern const struct poet_matmul poet_op0007; /* hidden2.backward_input */
extern const struct poet_sgd poet_op0008; /* hidden1.bias.update */
extern const struct poet_matmul poet_op0009; /* hidden1 */
extern const struct poet_matmul poet_op0010; /* logits */
extern const struct poet_correct_count poet_op0011; /* metric */
extern const struct poet_matmul poet_op0012; /* hidden1 */
extern const struct poet_relu poet_op0013; /* relu1 */
extern const struct poet_matmul poet_op0014; /* hidden2 */
extern const struct poet_relu poet_op0015; /* relu2 */
extern const struct poet_matmul poet_op0016; /* logits */

#endif
