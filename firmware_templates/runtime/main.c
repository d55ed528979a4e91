/* SPDX-License-Identifier: Apache-2.0 */
/* The whole run: load, train, save, evaluate, report. */
#include "console.h"
#include "desk.h"
#include "hal.h"
#include "high_water.h"
#include "poet.h"
#include "poet_math.h"
#include "stages.h"

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

static int train(const struct poet_image *image, uint64_t *total_ticks)
{
    for (uint32_t step = 1u; step <= image->steps; step++) {
        uint64_t ticks;
        POET_TRY(poet_train(image, step, &ticks));
        *total_ticks += ticks;
        print_count("@step ", step);
        print_value(" loss=", POET_LOSS);
        print_count(" ticks=", ticks);
        poet_print("\n");
        poet_listen(0u);
    }
    return POET_OK;
}

static int evaluate(const struct poet_image *image)
{
    if ((image->flags & POET_IMAGE_EVALUATE) == 0u) {
        return POET_OK;
    }
    for (uint32_t batch = 1u; batch <= poet_evaluations(image); batch++) {
        POET_TRY(poet_evaluate(image, batch));
        print_count("@eval ", batch);
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
    POET_TRY(poet_load(&image));
    *at = "train";
    POET_TRY(train(&image, ticks));
    *at = "save";
    POET_TRY(poet_save());
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
    if (poet_hal_storage_erases() > 0u) {
        print_count(" erases=", poet_hal_storage_erases());
    }
    poet_print("\n");
}

_Noreturn void poet_run(void)
{
    const char *at = "start";
    uint64_t ticks = 0u;
    const int started = poet_hal_init();
    int status = started;
    poet_paint_arena();
    poet_paint_stack();
    poet_print("@boot plan=");
    poet_print_hex(POET_PLAN_ID);
    poet_print(" board=" POET_BOARD " reset=");
    poet_print(poet_hal_reset_cause());
    poet_print("\n");

    if (started == POET_OK) {
        poet_listen(poet_hal_listen_ticks());
        status = run(&at, &ticks);
    }
    if (status < POET_OK) {
        poet_print("@error status=");
        poet_print_signed(status);
        poet_print(" at=");
        poet_print(at);
        poet_print("\n");
    } else {
        print_done(ticks);
    }
    if (started == POET_OK && poet_hal_listen_ticks() != 0u) {
        poet_listen(POET_LISTEN_FOR_EVER);
    }
    poet_hal_exit(status < POET_OK ? 1 : 0);
}
