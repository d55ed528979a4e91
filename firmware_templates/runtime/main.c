/* SPDX-License-Identifier: Apache-2.0 */
/* The application that poetfw writes: follows the storage's request and reports on the console. It may be edited:
 * `poetfw build` does not overwrite a changed file. */
#include "for_size.h"

#include "console.h"
#include "desk.h"
#include "hal.h"
#include "high_water.h"
#include "poet_math.h"
#include "poetfw.h"
#include "watchdog.h"

static void print_value(const char *name, float value)
{
    poet_print(name);
    poet_print_hex(poet_float_bits(value));
}

static void print_count(const char *name, uint64_t value)
{
    poet_print(name);
    poet_print_decimal(value);
}

#ifdef POETFW_WATCHDOG_MS
static void feed(void *argument)
{
    (void)argument;
    poet_feed();
}

/* Starts the watchdog: from now on, no op and no library call without ops may take longer than its time. */
static void start_watchdog(void)
{
    if (poet_hal_watchdog_start != NULL) {
        poet_hal_watchdog_start(POETFW_WATCHDOG_MS);
        poetfw_between_ops(feed, NULL);
    }
}
#else
static void start_watchdog(void)
{
}
#endif

/* Reporting functions are not inlined, so that their data is not on the stack while the library runs. */
#define APART static __attribute__((noinline))

APART uint32_t trained_steps(const struct poetfw *net)
{
    struct poetfw_metrics metrics;
    (void)poetfw_metrics(net, &metrics);
    return metrics.step;
}

static void print_moved(const struct poetfw_metrics *metrics)
{
    print_count(" read=", metrics->read_bytes);
    print_count(" written=", metrics->written_bytes);
}

/* Transfers since the start: the difference of two such lines is what happened between them. */
APART void print_transfers(const struct poetfw *net)
{
    struct poetfw_metrics metrics;
    (void)poetfw_metrics(net, &metrics);
    print_count("@transfers requests=", metrics.requests);
    print_moved(&metrics);
    poet_print("\n");
}

APART void print_commit(const struct poetfw *net)
{
    struct poetfw_metrics metrics;
    (void)poetfw_metrics(net, &metrics);
    print_count("@commit ", metrics.step);
    print_count(" set=", metrics.set);
    print_count(" written=", metrics.written_blocks);
    poet_print("\n");
}

/* Number of damaged samples reported. */
struct said {
    uint32_t training;
    uint32_t held_out;
    uint32_t ring;
};

/* Reports each damaged sample once as skipped, as far as known now. */
APART void print_damaged_of(const struct poetfw *net, uint32_t samples, const char *name, uint32_t *said)
{
    uint32_t number;
    while (poetfw_damaged(net, samples, *said, &number) >= POETFW_OK) {
        poet_print("@damaged ");
        print_count(name, number);
        poet_print("\n");
        ++*said;
    }
}

static void print_damaged(const struct poetfw *net, struct said *said)
{
    print_damaged_of(net, POETFW_TRAINING_SAMPLES, "training=", &said->training);
    print_damaged_of(net, POETFW_HELD_OUT_SAMPLES, "held_out=", &said->held_out);
    print_damaged_of(net, POETFW_RING_SAMPLES, "ring=", &said->ring);
}

APART void print_step(const struct poetfw *net, uint64_t ticks)
{
    struct poetfw_metrics metrics;
    (void)poetfw_metrics(net, &metrics);
    print_count("@step ", metrics.step);
    print_value(" loss=", metrics.loss);
    print_count(" ticks=", ticks);
    poet_print("\n");
}

APART void print_evaluation(const struct poetfw *net, uint32_t batch)
{
    struct poetfw_metrics metrics;
    (void)poetfw_metrics(net, &metrics);
    print_count("@eval ", batch);
    print_value(" metric=", metrics.metric);
    poet_print("\n");
}

static int save(struct poetfw *net)
{
    poet_feed();
    const int status = poetfw_save(net);
    if (status >= POETFW_OK) {
        print_commit(net);
        print_transfers(net);
    }
    return status;
}

static int train(struct poetfw *net, uint32_t steps, const char **at, uint64_t *total_ticks, struct said *said)
{
    for (uint32_t step = trained_steps(net) + 1u; step <= steps; step++) {
        *at = "train";
        const uint64_t start = poet_hal_ticks();
        int status = poetfw_train(net);
        const uint64_t ticks = poet_hal_ticks() - start;
        print_damaged(net, said);
        if (status < POETFW_OK) {
            return status;
        }
        *total_ticks += ticks;
        print_step(net, ticks);
        print_transfers(net);
        if (poetfw_save_is_due(net)) {
            *at = "save";
            status = save(net);
            if (status < POETFW_OK) {
                return status;
            }
        }
        poet_listen(0u);
    }
    return POETFW_OK;
}

static int evaluate(struct poetfw *net, uint32_t batches, struct said *said)
{
    for (uint32_t batch = 1u; batch <= batches; batch++) {
        const int status = poetfw_evaluate(net, batch);
        print_damaged(net, said);
        if (status < POETFW_OK) {
            return status;
        }
        print_evaluation(net, batch);
    }
    return POETFW_OK;
}

/* True if the storage works but holds no intact commit. */
static int is_lost(int status)
{
    return status == POETFW_ERROR_COMMIT || status == POETFW_ERROR_SLOT || status == POETFW_ERROR_LOST ||
           status == POETFW_ERROR_CRC;
}

/* Loads the last commit; if two readings find none intact and the program holds weights, begins with these. */
static int load(struct poetfw *net)
{
    int status = poetfw_load(net);
    if (is_lost(status)) {
        status = poetfw_load(net);
    }
    if (is_lost(status) && poetfw_reset(net) >= POETFW_OK) {
        poet_print("@anew status=");
        poet_print_signed(status);
        poet_print("\n");
        status = POETFW_OK;
    }
    return status;
}

/* Runs every stage up to the first that fails; *at is the last stage, *ticks the sum over all training steps. */
static int run(struct poetfw *net, const char **at, uint64_t *ticks)
{
    struct poetfw_task task = {0};
    struct said said = {0u, 0u, 0u};
    *at = "image";
    poet_feed();
    int status = poetfw_open(net);
    if (status >= POETFW_OK) {
        *at = "load";
        poet_feed();
        print_damaged(net, &said);
        status = load(net);
    }
#ifdef POETFW_RING
    if (status >= POETFW_OK) {
        *at = "save";
        poet_feed();
        status = poetfw_save(net); /* to train on samples that came into the ring since */
    }
#endif
    if (status >= POETFW_OK) {
        (void)poetfw_task(net, &task);
        print_count("@train steps=", task.steps);
        print_count(" batch=", POETFW_BATCH);
        print_count(" done=", trained_steps(net));
        poet_print("\n");
        print_transfers(net);
        status = train(net, task.steps, at, ticks, &said);
    }
    if (status >= POETFW_OK) {
        *at = "evaluate";
        status = evaluate(net, task.evaluations, &said);
    }
    return status;
}

#ifdef POETFW_DEVICES
static void print_arenas(void)
{
    for (uint32_t device = 0u; device < POETFW_DEVICES; device++) {
        print_count("@arena ", device + 1u);
        print_count(" high_water=", poet_device_high_water(device));
        poet_print("\n");
    }
}
#else
static void print_arenas(void)
{
}
#endif

APART void print_done(const struct poetfw *net, uint64_t ticks)
{
    struct poetfw_metrics metrics;
    (void)poetfw_metrics(net, &metrics);
    print_arenas();
    print_count("@done ticks=", ticks);
    poet_print(" tick_unit=");
    poet_print(poet_hal_tick_unit);
    print_count(" high_water=", poet_arena_high_water());
    print_count(" stack_high_water=", poet_stack_high_water());
    print_moved(&metrics);
    if (poet_hal_storage_erases() > 0u) {
        print_count(" erases=", poet_hal_storage_erases());
    }
    poet_print("\n");
}

_Noreturn void poet_run(void)
{
    struct poetfw net;
    const char *at = "start";
    uint64_t ticks = 0u;
    const int started = poet_hal_init();
    int status = started;
    poet_paint_arena();
    poet_paint_stack();
    poet_print("@boot plan=");
    poet_print_hex(POETFW_PLAN_ID);
    poet_print(" board=" POETFW_BOARD " reset=");
    poet_print(poet_hal_reset_cause());
    poet_print("\n");

    if (started == POETFW_OK) {
        start_watchdog();
        poet_listen(poet_hal_listen_ticks());
        status = run(&net, &at, &ticks);
    }
    if (status < POETFW_OK) {
        poet_print("@error status=");
        poet_print_signed(status);
        poet_print(" at=");
        poet_print(at);
        poet_print("\n");
    } else {
        print_done(&net, ticks);
    }
    if (started == POETFW_OK && poet_hal_listen_ticks() != 0u) {
        poet_listen(POET_LISTEN_FOR_EVER);
    }
    poet_hal_exit(status < POETFW_OK ? 1 : 0);
}
