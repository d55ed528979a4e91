/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of a training, used by poetfw.c for an application and by desk.c for a host. */
#ifndef POET_STAGES_H
#define POET_STAGES_H

#include "commits.h"
#include "image.h"

#include <stdint.h>

/* Trains step `step` (1-based); the last one captures gradients if the image asks for it. The loss is in POET_LOSS.
 * The first of the two parts changes no tensor. POET_ERROR_NO_SAMPLES: there are no training samples.
 * POET_ERROR_DIVERGED: the loss is not finite, hence the step's results are not either. */
int poet_train(struct poet_image *image, uint32_t step);
int poet_begin_step(struct poet_image *image, uint32_t step);
int poet_continue_step(void);

/* True if it is time to commit (poet_save) after a number of steps. */
int poet_save_is_due(const struct poet_image *image, uint32_t step);

/* Begins a forward pass. What it stores is of no training step and of no other pass since the power came, so a lost write is
 * found. */
void poet_begin_forward(const struct poet_image *image);

/* Number of held-out batches in the image, and evaluation of one (1-based): the metric is in POET_METRIC. */
uint32_t poet_evaluations(const struct poet_image *image);
int poet_evaluate(const struct poet_image *image, uint32_t batch);

/* Passes on the status of a step; after an error, no transfer is left under way. */
int poet_end_step(int status);

#endif
