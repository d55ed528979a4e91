/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "poetfw.h"

#include "commits.h"
#include "poet.h"
#include "poet_math.h"
#include "ring.h"
#include "soft_float.h"
#include "stages.h"

/* Flags of a context's `done`. */
#define OPENED 1u /* the storage */
#define LOADED 2u /* the tensors */

_Static_assert(sizeof(struct poet_image) == sizeof((struct poetfw *)0)->image, "a context holds an image");

static uint8_t is_loaded; /* the arena holds data that a call loaded since the program's start */

/* Set while a call is in the library. An atomic exchange keeps other threads out; a core without it, such as the
 * Cortex-M0+, keeps out interrupts and the function between ops, which end before the interrupted code continues. */
static volatile uint8_t is_taken;

#if defined __thumb__ && !defined __thumb2__
/* Link-time optimization calls float functions only after it has read all archives, too late to find their callees. A
 * reference here makes them be read with the rest. */
static uint32_t (*const called_by_floats[])(uint32_t, uint32_t) __attribute__((used)) = {poet_sum_bits,
                                                                                         poet_product_bits};
#endif

static int take(void)
{
#if __GCC_ATOMIC_CHAR_LOCK_FREE == 2
    return __atomic_exchange_n(&is_taken, 1u, __ATOMIC_ACQUIRE) == 0u ? POET_OK : POET_ERROR_BUSY;
#else
    if (is_taken) {
        return POET_ERROR_BUSY;
    }
    is_taken = 1u;
    return POET_OK;
#endif
}

static void give_back(const int *taken)
{
    (void)taken;
#if __GCC_ATOMIC_CHAR_LOCK_FREE == 2
    __atomic_store_n(&is_taken, 0u, __ATOMIC_RELEASE);
#else
    is_taken = 0u;
#endif
}

/* Enters the library until the calling function returns; returns with an error if another call is in it. */
#define TAKE()                                                       \
    POET_TRY(take());                                                \
    __attribute__((cleanup(give_back))) const int taken = 1;         \
    (void)taken

/* True if a step has begun and not ended. */
#ifdef POET_SLICES
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

static int has_done(const struct poetfw *context, uint32_t what)
{
    return context->plan == POET_PLAN_ID && (context->done & what) == what;
}

/* Checks that a call is allowed: these flags are set, and no step is under way. */
static int needs(const struct poetfw *context, uint32_t what)
{
    if (is_in_step()) {
        return POET_ERROR_IN_STEP;
    }
    return has_done(context, what) ? POET_OK : POET_ERROR_ORDER;
}

#if defined(POET_STREAMS) || defined(POET_STORED_TENSORS)
#define IS_ALL_IN_RAM 0 /* streamed and stored tensors are those of the storage opened last */
#else
#define IS_ALL_IN_RAM 1
#endif

/* Resets a context, except for what has been loaded; returns whether that was. */
static int begin(struct poetfw *context)
{
    const int keeps = IS_ALL_IN_RAM && is_loaded && !is_in_step() && has_done(context, LOADED);
    if (!keeps) {
        context->step = 0u;
    }
    context->plan = POET_PLAN_ID;
    context->done = keeps ? LOADED : 0u;
    return keeps;
}

/* The loaded tensors are in no commit of the storage. */
static int open_image(struct poetfw *context)
{
    const int keeps = begin(context);
    POET_TRY(poet_storage_open(image_of(context)));
    if (keeps) {
        POET_TRY(poet_begin_anew(image_of(context)));
    }
    context->done |= OPENED;
    return POET_OK;
}

int poetfw_open(struct poetfw *context)
{
    TAKE();
    if (is_in_step()) { /* which is abandoned */
        context->done = 0u;
        end_slices();
        poet_pages_forget();
    }
    return open_image(context);
}

int poetfw_format(struct poetfw *context, uint32_t seed, uint32_t sets)
{
    TAKE();
    if (is_in_step()) {
        return POET_ERROR_IN_STEP;
    }
    context->done &= ~OPENED;
    POET_TRY(poet_storage_format(seed, sets));
    return open_image(context);
}

int poetfw_load(struct poetfw *context)
{
    TAKE();
    POET_TRY(needs(context, OPENED));
    context->done = OPENED;
    POET_TRY(poet_load(image_of(context)));
    context->step = image_of(context)->commit.step;
    context->done |= LOADED;
    is_loaded = 1u;
    return POET_OK;
}

int poetfw_reset(struct poetfw *context)
{
    TAKE();
    if (is_in_step()) {
        return POET_ERROR_IN_STEP;
    }
    if (!has_done(context, 0u)) {
        (void)begin(context);
    }
    POET_TRY(poet_initial_weights());
    context->done &= OPENED;
    if (has_done(context, OPENED)) {
        POET_TRY(poet_begin_anew(image_of(context)));
    }
    context->step = 0u;
    context->done |= LOADED;
    is_loaded = 1u;
    return POET_OK;
}

int poetfw_save(struct poetfw *context)
{
    TAKE();
    POET_TRY(needs(context, OPENED | LOADED));
    return poet_save(image_of(context), context->step);
}

int poetfw_save_is_due(const struct poetfw *context)
{
    return needs(context, OPENED | LOADED) == POET_OK && poet_save_is_due(opened(context), context->step);
}

/* Status of a whole step; a step that needs partners' data cannot be run here. */
#ifdef POET_MESSAGES
static int whole(int status)
{
    poet_stopped_for = 0u;
    return status == POET_AGAIN ? poet_end_step(POET_ERROR_PARTNERS) : status;
}
#else
static int whole(int status)
{
    return status;
}
#endif

/* A failed step leaves tensors partly updated: they have to be loaded again. */
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
    TAKE();
    POET_TRY(needs(context, OPENED | LOADED));
    POET_TRY(poet_begin_step(image_of(context), context->step + 1u));
    return end_step(context, whole(poet_continue_step()));
}

#ifdef POET_SLICES
int poetfw_train_some(struct poetfw *context, uint32_t ops)
{
    TAKE();
    if (!has_done(context, OPENED | LOADED)) {
        return POET_ERROR_ORDER;
    }
    POET_TRY(poet_begin_step(image_of(context), context->step + 1u));
    poet_progress.left = ops;
    const int status = poet_continue_step();
    poet_progress.left = 0u;
    if (status == POET_AGAIN) {
        return status;
    }
    end_slices();
    return end_step(context, status);
}
#endif

/* A member of a sample: where it begins, how long it is, and whether it holds floats. */
struct member {
    uint32_t first;
    uint32_t bytes;
    int are_floats;
};

static const struct member INPUTS[] = {POET_X_MEMBERS};

/* Whether all floats of samples are finite. */
static int check_floats(const void *samples, uint32_t bytes, uint32_t sample_bytes, const struct member *members, uint32_t count)
{
    for (uint32_t at = 0u; at < bytes; at += sample_bytes) {
        for (uint32_t i = 0u; i < count; i++) {
            const float *const values = (const float *)(const void *)((const uint8_t *)samples + at + members[i].first);
            if (members[i].are_floats && !poet_all_finite(values, members[i].bytes / sizeof *values)) {
                return POET_ERROR_NOT_FINITE;
            }
        }
    }
    return POET_OK;
}

static int check_inputs(const poetfw_input *x, uint32_t bytes)
{
    return check_floats(x, bytes, POET_X_BYTES, INPUTS, sizeof INPUTS / sizeof INPUTS[0]);
}

#if POET_CLASSES > 0
static int check_targets(const poetfw_target *y, uint32_t bytes)
{
    for (uint32_t i = 0u; i < bytes / sizeof *y; i++) {
        if (y[i] < 0 || y[i] >= (poetfw_target)POET_CLASSES) {
            return POET_ERROR_LABEL;
        }
    }
    return POET_OK;
}
#else
static const struct member TARGETS[] = {POET_Y_MEMBERS};

static int check_targets(const poetfw_target *y, uint32_t bytes)
{
    return check_floats(y, bytes, POET_Y_BYTES, TARGETS, sizeof TARGETS / sizeof TARGETS[0]);
}
#endif

int poetfw_train_on(struct poetfw *context, const poetfw_input *x, uint32_t x_bytes, const poetfw_target *y,
                    uint32_t y_bytes)
{
    TAKE();
    POET_TRY(needs(context, POET_PAGES == 0 && IS_ALL_IN_RAM ? LOADED : OPENED | LOADED));
    if (x_bytes != POET_BATCH * POET_X_BYTES || y_bytes != POET_BATCH * POET_Y_BYTES) {
        return POET_ERROR_SAMPLE;
    }
    POET_TRY(check_targets(y, y_bytes));
    POET_TRY(check_inputs(x, x_bytes));
    poet_slots_begin_step(context->step + 1u, 0);
    poet_data_select_given(x, y);
    return end_step(context, whole(poet_continue_step()));
}

#if POET_RING > 0
int poetfw_append(struct poetfw *context, const poetfw_input *x, uint32_t x_bytes, const poetfw_target *y,
                  uint32_t y_bytes, uint32_t *id)
{
    TAKE();
    POET_TRY(needs(context, OPENED | LOADED));
    if (x_bytes != POET_X_BYTES || (y != NULL && y_bytes != POET_Y_BYTES)) {
        return POET_ERROR_SAMPLE;
    }
    if (y != NULL) {
        POET_TRY(check_targets(y, y_bytes));
    }
    POET_TRY(check_inputs(x, x_bytes));
    return poet_ring_append(x, y, context->step != opened(context)->commit.step, id);
}

int poetfw_label(struct poetfw *context, uint32_t id, const poetfw_target *y, uint32_t y_bytes)
{
    TAKE();
    POET_TRY(needs(context, OPENED | LOADED));
    if (y_bytes != POET_Y_BYTES) {
        return POET_ERROR_SAMPLE;
    }
    POET_TRY(check_targets(y, y_bytes));
    return poet_ring_label(id, y);
}

int poetfw_ring(const struct poetfw *context, struct poetfw_ring *ring)
{
    TAKE();
    POET_TRY(needs(context, OPENED));
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
    TAKE();
    if (!has_done(context, OPENED)) {
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
    TAKE();
    POET_TRY(needs(context, OPENED | LOADED));
    if (batch == 0u || batch > poet_evaluations(image_of(context))) {
        return POET_ERROR_ARGUMENT;
    }
    return poet_evaluate(image_of(context), batch);
}

int poetfw_predict(struct poetfw *context, const poetfw_input *x, uint32_t x_bytes, poetfw_output *output,
                   uint32_t output_bytes)
{
    TAKE();
    POET_TRY(needs(context, IS_ALL_IN_RAM ? LOADED : OPENED | LOADED));
    if (x_bytes != POET_X_BYTES || output_bytes != POET_OUTPUT_BYTES) {
        return POET_ERROR_SAMPLE;
    }
    POET_TRY(check_inputs(x, x_bytes));
    poet_begin_forward(image_of(context));
    return poet_predict_step(x, output);
}

int poetfw_task(const struct poetfw *context, struct poetfw_task *task)
{
    TAKE();
    POET_TRY(needs(context, OPENED));
    const struct poet_image *const image = opened(context);
    task->steps = image->steps;
    task->evaluations = (image->flags & POET_IMAGE_EVALUATE) != 0u ? poet_evaluations(image) : 0u;
    return POET_OK;
}

int poetfw_metrics(const struct poetfw *context, struct poetfw_metrics *metrics)
{
    TAKE();
    POET_TRY(needs(context, LOADED));
    const struct poet_traffic traffic = poet_storage_traffic();
    metrics->step = context->step;
    metrics->loss = *POET_LOSS;
    metrics->metric = *POET_METRIC;
    metrics->read_bytes = (uint64_t)traffic.read_blocks * POET_BLOCK_BYTES;
    metrics->written_bytes = (uint64_t)traffic.written_blocks * POET_BLOCK_BYTES;
    metrics->requests = traffic.requests;
    metrics->set = 0u;
    metrics->written_blocks = 0u;
    if (has_done(context, OPENED)) {
        metrics->set = opened(context)->commit.set;
        metrics->written_blocks = poet_blocks_written(opened(context));
    }
    return POET_OK;
}

int poetfw_busy(void)
{
    if (is_taken) {
        return POET_ERROR_BUSY;
    }
    return is_in_step() ? POET_ERROR_IN_STEP : POET_OK;
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
