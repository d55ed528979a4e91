/* SPDX-License-Identifier: Apache-2.0 */
/* The whole run: load, train, save, evaluate, report. */
#include "console.h"
#include "hal.h"
#include "high_water.h"
#include "poet.h"
#include "poet_math.h"

static void print_value(const char *name, const float *value)
{
    poet_print(name);
    poet_print_hex(poet_float_bits(*value));
}

static void print_count(const char *name, uint64_t value)
{
    poet_print(name);
    poet_print_decimal(value);
}

static int load(const struct poet_image *image)
{
    poet_slots_open(image->slots_first_block);
    for (uint32_t i = 0u; i < POET_PERSISTENTS; i++) {
        const struct poet_persistent *tensor = &poet_persistents[i];
        POET_TRY(poet_page_in(tensor->slot, poet_arena + tensor->offset,
                              poet_slots[tensor->slot].bytes));
    }
    return POET_OK;
}

static int train(const struct poet_image *image, uint64_t *total_ticks)
{
    for (uint32_t step = 1u; step <= image->steps; step++) {
        const uint64_t start = poet_hal_ticks();
        const int capture = step == image->steps && (image->flags & POET_IMAGE_CAPTURE) != 0u;
        poet_slots_begin_step(step, capture);
        poet_data_select_training(&image->training, image->seed, step - 1u);
        POET_TRY(poet_train_step());
        const uint64_t ticks = poet_hal_ticks() - start;
        *total_ticks += ticks;
        print_count("@step ", step);
        print_value(" loss=", POET_LOSS);
        print_count(" ticks=", ticks);
        poet_print("\n");
    }
    return POET_OK;
}

static int save(void)
{
    for (uint32_t i = 0u; i < POET_PERSISTENTS; i++) {
        const struct poet_persistent *tensor = &poet_persistents[i];
        POET_TRY(poet_page_out(tensor->slot, poet_arena + tensor->offset,
                               poet_slots[tensor->slot].bytes));
    }
    return POET_OK;
}

static int evaluate(const struct poet_image *image)
{
    if ((image->flags & POET_IMAGE_EVALUATE) == 0u) {
        return POET_OK;
    }
    for (uint32_t batch = 0u; batch < image->evaluation.count / POET_BATCH; batch++) {
        poet_data_select_evaluation(&image->evaluation, batch);
        POET_TRY(poet_evaluate_step());
        print_count("@eval ", batch + 1u);
        print_value(" metric=", POET_METRIC);
        poet_print("\n");
    }
    return POET_OK;
}

/* Runs every stage up to the first that fails; *at is the stage it ends in, *ticks what the training
 * steps took together. */
static int run(const char **at, uint64_t *ticks)
{
    struct poet_image image;
    *at = "image";
    POET_TRY(poet_storage_open(&image));
    print_count("@train steps=", image.steps);
    print_count(" batch=", POET_BATCH);
    poet_print("\n");
    *at = "load";
    POET_TRY(load(&image));
    *at = "train";
    POET_TRY(train(&image, ticks));
    *at = "save";
    POET_TRY(save());
    *at = "evaluate";
    return evaluate(&image);
}

static void print_done(uint64_t ticks)
{
    const struct poet_traffic traffic = poet_storage_traffic();
    print_count("@done ticks=", ticks);
    poet_print(" tick_unit=");
    poet_print(poet_hal_tick_unit);
    print_count(" high_water=", poet_arena_high_water());
    print_count(" stack_high_water=", poet_stack_high_water());
    print_count(" read=", traffic.read_bytes);
    print_count(" written=", traffic.written_bytes);
    poet_print("\n");
}

_Noreturn void poet_run(void)
{
    const char *at = "start";
    uint64_t ticks = 0u;
    int status = poet_hal_init();
    poet_paint_arena();
    poet_paint_stack();
    poet_print("@boot plan=");
    poet_print_hex(POET_PLAN_ID);
    poet_print(" board=" POET_BOARD " reset=");
    poet_print(poet_hal_reset_cause());
    poet_print("\n");

    if (status == POET_OK) {
        status = run(&at, &ticks);
    }
    if (status < POET_OK) {
        poet_print("@error status=");
        poet_print_signed(status);
        poet_print(" at=");
        poet_print(at);
        poet_print("\n");
        poet_hal_exit(1);
    }
    print_done(ticks);
    poet_hal_exit(0);
}
