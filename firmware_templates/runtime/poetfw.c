/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "poetfw.h"

#include "commits.h"
#include "poet.h"
#include "ring.h"
#include "stages.h"

/* What has been done, in a context's `done`. */
#define OPENED 1u /* the storage */
#define LOADED 2u /* the tensors */

_Static_assert(sizeof(struct poet_image) == sizeof((struct poetfw *)0)->image, "a context holds an image");

static struct {
    void (*call)(void *argument);
    void *argument;
    uint8_t is_called; /* now: the library is in the middle of a step */
    uint8_t is_loaded; /* the arena holds what a call loaded, since the program's start */
} hook;

/* Whether a step is begun and not ended. */
#ifdef POET_SLICES
struct poet_progress poet_progress;

static int is_in_step(void)
{
    return poet_progress.next != 0u;
}

static void end_slices(void)
{
    poet_progress.next = 0u;
}
#else
static int is_in_step(void)
{
    return 0;
}

static void end_slices(void)
{
}
#endif

static struct poet_image *image_of(struct poetfw *context)
{
    return (struct poet_image *)(void *)context->image;
}

static const struct poet_image *opened(const struct poetfw *context)
{
    return (const struct poet_image *)(const void *)context->image;
}

static int knows(const struct poetfw *context, uint32_t what)
{
    return !hook.is_called && context->plan == POET_PLAN_ID && (context->done & what) == what;
}

static int has_done(const struct poetfw *context, uint32_t what)
{
    return !is_in_step() && knows(context, what);
}

static void begin(struct poetfw *context)
{
    context->plan = POET_PLAN_ID;
    context->done = 0u;
    context->step = 0u;
}

int poetfw_open(struct poetfw *context)
{
    if (hook.is_called) {
        return POET_ERROR_ORDER;
    }
    const int is_loaded = hook.is_loaded && has_done(context, LOADED);
    if (is_in_step()) { /* which is given up */
        end_slices();
        poet_pages_forget();
    }
    const uint32_t step = context->step;
    begin(context);
    const int status = poet_storage_open(image_of(context));
    if (status >= POET_OK) {
        context->done = OPENED;
    } else if (is_loaded) { /* without a storage, as after a reset */
        context->done = LOADED;
        context->step = step;
    }
    return status;
}

int poetfw_load(struct poetfw *context)
{
    if (!has_done(context, OPENED)) {
        return POET_ERROR_ORDER;
    }
    context->done = OPENED;
    POET_TRY(poet_load(image_of(context)));
    context->step = image_of(context)->commit.step;
    context->done |= LOADED;
    hook.is_loaded = 1u;
    return POET_OK;
}

int poetfw_reset(struct poetfw *context)
{
    if (hook.is_called || is_in_step()) {
        return POET_ERROR_ORDER;
    }
    if (!has_done(context, 0u)) {
        begin(context);
    }
    POET_TRY(poet_initial_weights());
    context->done &= OPENED;
    if (has_done(context, OPENED)) {
        POET_TRY(poet_begin_anew(image_of(context)));
    }
    context->step = 0u;
    context->done |= LOADED;
    hook.is_loaded = 1u;
    return POET_OK;
}

int poetfw_save(struct poetfw *context)
{
    if (!has_done(context, OPENED | LOADED)) {
        return POET_ERROR_ORDER;
    }
    return poet_save(image_of(context), context->step);
}

int poetfw_save_is_due(const struct poetfw *context)
{
    return has_done(context, OPENED | LOADED) && poet_save_is_due(opened(context), context->step);
}

/* What a whole step returns; where it needs partners, nobody here has what they have for it. */
#ifdef POET_MESSAGES
uint32_t poet_stopped_for;

static int whole(int status)
{
    poet_stopped_for = 0u;
    return status == POET_AGAIN ? POET_ERROR_PARTNERS : status;
}
#else
static int whole(int status)
{
    return status;
}
#endif

/* A step that failed leaves the tensors half updated: they have to be loaded again. */
static int end_step(struct poetfw *context, int status)
{
    if (status >= POET_OK) {
        context->step++;
    } else {
        context->done &= ~LOADED;
    }
    return status;
}

int poetfw_train(struct poetfw *context)
{
    if (!has_done(context, OPENED | LOADED)) {
        return POET_ERROR_ORDER;
    }
    return end_step(context, whole(poet_train(image_of(context), context->step + 1u)));
}

#ifdef POET_SLICES
int poetfw_train_some(struct poetfw *context, uint32_t ops)
{
    if (!knows(context, OPENED | LOADED)) {
        return POET_ERROR_ORDER;
    }
    poet_progress.left = ops;
    const int status = poet_train(image_of(context), context->step + 1u);
    poet_progress.left = 0u;
    if (status == POET_AGAIN) {
        return status;
    }
    end_slices();
    return end_step(context, status);
}
#endif

#if POET_CLASSES > 0
static int check_labels(const poetfw_target *y, uint32_t count)
{
    for (uint32_t i = 0u; i < count; i++) {
        if (y[i] < 0 || y[i] >= (poetfw_target)POET_CLASSES) {
            return POET_ERROR_LABEL;
        }
    }
    return POET_OK;
}
#else
static int check_labels(const poetfw_target *y, uint32_t count)
{
    (void)y;
    (void)count;
    return POET_OK;
}
#endif

int poetfw_train_on(struct poetfw *context, const float *x, uint32_t x_bytes, const poetfw_target *y,
                    uint32_t y_bytes)
{
    if (!has_done(context, POET_PAGES > 0 ? OPENED | LOADED : LOADED)) {
        return POET_ERROR_ORDER;
    }
    if (x_bytes != POET_BATCH * POET_X_BYTES || y_bytes != POET_BATCH * POET_Y_BYTES) {
        return POET_ERROR_SAMPLE;
    }
    POET_TRY(check_labels(y, POET_BATCH));
    poet_slots_begin_step(context->step + 1u, 0);
    poet_data_select_given(x, y);
    return end_step(context, poet_end_step(whole(poet_train_step())));
}

#if POET_RING > 0
int poetfw_append(struct poetfw *context, const float *x, uint32_t x_bytes, const poetfw_target *y,
                  uint32_t y_bytes, uint32_t *id)
{
    if (!has_done(context, OPENED | LOADED)) {
        return POET_ERROR_ORDER;
    }
    if (x_bytes != POET_X_BYTES || (y != NULL && y_bytes != POET_Y_BYTES)) {
        return POET_ERROR_SAMPLE;
    }
    if (y != NULL) {
        POET_TRY(check_labels(y, 1u));
    }
    return poet_ring_append(x, y, context->step != opened(context)->commit.step, id);
}

int poetfw_label(struct poetfw *context, uint32_t id, const poetfw_target *y, uint32_t y_bytes)
{
    if (!has_done(context, OPENED | LOADED)) {
        return POET_ERROR_ORDER;
    }
    if (y_bytes != POET_Y_BYTES) {
        return POET_ERROR_SAMPLE;
    }
    POET_TRY(check_labels(y, 1u));
    return poet_ring_label(id, y);
}

int poetfw_ring(const struct poetfw *context, struct poetfw_ring *ring)
{
    if (!has_done(context, OPENED)) {
        return POET_ERROR_ORDER;
    }
    POET_TRY(poet_ring_settle());
    const struct poet_ring_counts counts = poet_ring_count();
    ring->samples = counts.samples;
    ring->labelled = counts.labelled;
    ring->drawn = counts.drawn;
    ring->unlabelled = counts.unlabelled;
    ring->damaged = counts.damaged;
    return POET_OK;
}

static int damaged_in_ring(uint32_t index, uint32_t *number)
{
    if (index >= poet_ring_count().damaged) {
        return POET_ERROR_ARGUMENT;
    }
    *number = poet_ring_damaged(index);
    return POET_OK;
}
#else
static int damaged_in_ring(uint32_t index, uint32_t *number)
{
    (void)index;
    (void)number;
    return POET_ERROR_ARGUMENT;
}
#endif

int poetfw_damaged(const struct poetfw *context, uint32_t samples, uint32_t index, uint32_t *number)
{
    if (!knows(context, OPENED)) {
        return POET_ERROR_ORDER;
    }
    if (samples == POETFW_RING_SAMPLES) {
        return damaged_in_ring(index, number);
    }
    const struct poet_image *const image = opened(context);
    const struct poet_samples *const these =
        samples == POETFW_TRAINING_SAMPLES ? &image->training : &image->evaluation;
    return index < poet_data_damaged(these, index, number) ? POET_OK : POET_ERROR_ARGUMENT;
}

int poetfw_evaluate(struct poetfw *context, uint32_t batch)
{
    if (!has_done(context, OPENED | LOADED)) {
        return POET_ERROR_ORDER;
    }
    if (batch == 0u || batch > poet_evaluations(image_of(context))) {
        return POET_ERROR_ARGUMENT;
    }
    return poet_evaluate(image_of(context), batch);
}

int poetfw_predict(struct poetfw *context, const float *x, uint32_t x_bytes, float *output,
                   uint32_t output_bytes)
{
    if (!has_done(context, LOADED)) {
        return POET_ERROR_ORDER;
    }
    if (x_bytes != POET_X_BYTES || output_bytes != POET_OUTPUT_BYTES) {
        return POET_ERROR_SAMPLE;
    }
    return poet_predict_step(x, output);
}

int poetfw_task(const struct poetfw *context, struct poetfw_task *task)
{
    if (!has_done(context, OPENED)) {
        return POET_ERROR_ORDER;
    }
    const struct poet_image *const image = opened(context);
    task->steps = image->steps;
    task->evaluations = (image->flags & POET_IMAGE_EVALUATE) != 0u ? poet_evaluations(image) : 0u;
    return POET_OK;
}

int poetfw_metrics(const struct poetfw *context, struct poetfw_metrics *metrics)
{
    if (!has_done(context, LOADED)) {
        return POET_ERROR_ORDER;
    }
    const struct poet_traffic traffic = poet_storage_traffic();
    metrics->step = context->step;
    metrics->loss = *POET_LOSS;
    metrics->metric = *POET_METRIC;
    metrics->read_bytes = (uint64_t)traffic.read_blocks * POET_BLOCK_BYTES;
    metrics->written_bytes = (uint64_t)traffic.written_blocks * POET_BLOCK_BYTES;
    metrics->set = 0u;
    metrics->written_blocks = 0u;
    if (has_done(context, OPENED)) {
        metrics->set = opened(context)->commit.set;
        metrics->written_blocks = poet_blocks_written(opened(context));
    }
    return POET_OK;
}

void poetfw_between_ops(void (*call)(void *argument), void *argument)
{
    hook.call = call;
    hook.argument = argument;
}

void poet_between_ops(void)
{
    if (hook.call != NULL) {
        hook.is_called = 1;
        hook.call(hook.argument);
        hook.is_called = 0;
    }
}

const struct poetfw_plan *poetfw_plan(void)
{
    static const struct poetfw_plan plan = {
        .id = POET_PLAN_ID,
        .batch = POET_BATCH,
        .x_bytes = POET_X_BYTES,
        .y_bytes = POET_Y_BYTES,
        .output_bytes = POET_OUTPUT_BYTES,
        .classes = POET_CLASSES,
        .arena_bytes = POET_ARENA_BYTES,
        .pages = POET_PAGES,
    };
    return &plan;
}

const char *poetfw_version(void)
{
    return POETFW_VERSION;
}
