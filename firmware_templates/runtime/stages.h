/* SPDX-License-Identifier: Apache-2.0 */
/* What a training is made of, whoever has it done: poetfw.c for an application, desk.c for a host. */
#ifndef POET_STAGES_H
#define POET_STAGES_H

#include "commits.h"
#include "image.h"

#include <stdint.h>

/* Trains step `step` (1-based), the last of which captures where the image asks for it. The loss is in
 * POET_LOSS. This is done in two parts, the first of which changes no tensor. POET_ERROR_NO_SAMPLES: there are none to train on.
 * POET_ERROR_DIVERGED: the loss is not finite, so what the step has left is not either. */
int poet_train(struct poet_image *image, uint32_t step);
int poet_begin_step(struct poet_image *image, uint32_t step);
int poet_continue_step(void);

/* Whether it is time to commit (poet_save) what so many steps have come to. */
int poet_save_is_due(const struct poet_image *image, uint32_t step);

/* How many batches of held-out samples the image has, and evaluating one (1-based): the metric is in
 * POET_METRIC. */
uint32_t poet_evaluations(const struct poet_image *image);
int poet_evaluate(const struct poet_image *image, uint32_t batch);

/* How a step ended, passed on: one that failed has left nothing under way. */
int poet_end_step(int status);

#endif
