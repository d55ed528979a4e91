/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "stages.h"

#include "poet.h"
#include "poet_math.h"
#include "stream.h"

int poet_end_step(int status)
{
    if (status < POET_OK) {
        poet_pages_forget();
    }
    return status;
}

int poet_begin_step(struct poet_image *image, uint32_t step)
{
    POET_TRY(poet_settle(image));
    const int capture = step == image->steps && (image->flags & POET_IMAGE_CAPTURE) != 0u;
    poet_slots_begin_step(step, capture);
    return poet_data_select_training(&image->training, image->seed, step - 1u);
}

int poet_continue_step(void)
{
    const int status = poet_end_step(poet_train_step());
#ifdef POET_STREAMS
    if (status == POET_OK) {
        poet_streams_end_step();
    }
#endif
    return status != POET_OK || poet_all_finite(POET_LOSS, 1u) ? status : POET_ERROR_DIVERGED;
}

int poet_train(struct poet_image *image, uint32_t step)
{
    POET_TRY(poet_begin_step(image, step));
    return poet_continue_step();
}

int poet_save_is_due(const struct poet_image *image, uint32_t step)
{
    return step == image->steps || (image->checkpoint_every != 0u && step % image->checkpoint_every == 0u);
}

uint32_t poet_evaluations(const struct poet_image *image)
{
    return image->evaluation.count / POET_BATCH;
}

void poet_begin_forward(const struct poet_image *image)
{
#ifdef POET_STORED_TENSORS
    poet_slots_begin_step(~poet_blocks_written(image), 0);
#else
    (void)image;
#endif
}

int poet_evaluate(const struct poet_image *image, uint32_t batch)
{
    poet_begin_forward(image);
    poet_data_select_evaluation(&image->evaluation, batch - 1u);
    return poet_end_step(poet_evaluate_step());
}
