/* SPDX-License-Identifier: Apache-2.0 */
/* Times some training steps as a whole, and then the ops and transfers of the same ones one by one, for `poetfw run
 * --trace`. In a copy of a project this stands in for its application. */
#include "console.h"
#include "hal.h"
#include "mark.h"
#include "poet.h"
#include "poetfw.h"
#include "statement.h"
#undef poet_page_wait

#define STEPS 8u /* what loading takes differs from batch to batch, and all else without an FPU */

struct poet_timed poet_timed;

struct slices {
    uint32_t count;
    uint64_t start;
};

__attribute__((weak)) void poet_mark(int begins)
{
    (void)begins;
}

static void begin_slice(struct slices *slices)
{
    poet_mark(1);
    slices->start = poet_hal_ticks();
}

/* What is printed belongs to no slice. */
static void end_slice(void *argument)
{
    const uint64_t now = poet_hal_ticks();
    struct slices *const slices = argument;
    poet_mark(0);
    poet_print("@slice ");
    poet_print_decimal(slices->count++);
    poet_print(" ticks=");
    poet_print_decimal(now - slices->start);
    poet_print(" statement=");
    poet_print_decimal(poet_timed.statement);
    if (poet_timed.slot != UINT32_MAX) {
        poet_print(" slot=");
        poet_print_decimal(poet_timed.slot);
    }
    poet_print("\n");
    begin_slice(slices);
}

int poet_timed_wait(uint32_t slot)
{
    const int status = poet_page_wait(slot);
    poet_timed = (struct poet_timed){0u, slot};
    poet_between_ops();
    return status;
}

static int train(struct poetfw *net)
{
    for (uint32_t i = 0u; i < STEPS; i++) {
        POET_TRY(poetfw_train(net));
    }
    return POET_OK;
}

/* The first step warms up; during the next ones, nothing is asked before they end. Then all begins anew. The first
 * slice is an empty one. */
static int run(struct poetfw *net, uint64_t *whole)
{
    struct slices slices = {0u, 0u};
    POET_TRY(poetfw_open(net));
    POET_TRY(poetfw_load(net));
    POET_TRY(poetfw_train(net));
    begin_slice(&slices);
    POET_TRY(train(net));
    *whole = (poet_hal_ticks() - slices.start) / STEPS;
    poet_mark(0);
    POET_TRY(poetfw_load(net));
    POET_TRY(poetfw_train(net));
    poetfw_between_ops(end_slice, &slices);
    begin_slice(&slices);
    poet_between_ops();
    return train(net);
}

_Noreturn void poet_run(void)
{
    struct poetfw net;
    uint64_t whole = 0u;
    int status = poet_hal_init();
    if (status >= POETFW_OK) {
        status = run(&net, &whole);
    }
    if (status < POETFW_OK) {
        poet_print("@error status=");
        poet_print_signed(status);
        poet_print("\n");
    } else {
        poet_print("@done ticks=");
        poet_print_decimal(whole);
        poet_print(" tick_unit=");
        poet_print(poet_hal_tick_unit);
        poet_print("\n");
    }
    poet_hal_exit(status < POETFW_OK ? 1 : 0);
}
