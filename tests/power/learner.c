/* SPDX-License-Identifier: Apache-2.0 */
/* An application that takes samples between its training steps, labels them later, and says what it did as poetfw's own
 * does. What it appends and labels before a step follows from what is there: so after a cut it makes up for it.
 */
#include "console.h"
#include "hal.h"
#include "poetfw.h"

#include <stddef.h>

#define FEATURES (POETFW_X_BYTES / sizeof(float))

/* Before step `step`, from 1 on, so many samples are there in all, and so many have a label. */
static uint32_t samples_before(uint32_t step)
{
    return 3u + step;
}

static uint32_t labels_before(uint32_t step)
{
    return 1u + step;
}

static poetfw_target label_of(uint32_t number)
{
    return (poetfw_target)(number % POETFW_CLASSES);
}

static int append(struct poetfw *net, uint32_t number)
{
    float x[FEATURES];
    uint32_t id;
    const poetfw_target y = label_of(number);
    for (uint32_t i = 0u; i < FEATURES; i++) {
        x[i] = (float)((number * 37u + i * 11u) % 19u) / 19.0f - 0.5f;
    }
    return poetfw_append(net, x, sizeof x, number == 0u ? &y : NULL, sizeof y, &id);
}

static int take_samples(struct poetfw *net, uint32_t step)
{
    struct poetfw_ring ring;
    int status;
    while ((status = poetfw_ring(net, &ring)) == POETFW_OK && ring.samples < samples_before(step)) {
        status = append(net, ring.samples);
        if (status < POETFW_OK) {
            return status;
        }
    }
    while (status == POETFW_OK && ring.labelled < labels_before(step)) {
        const poetfw_target y = label_of(ring.labelled);
        status = poetfw_label(net, ring.unlabelled, &y, sizeof y);
        if (status == POETFW_OK) {
            status = poetfw_ring(net, &ring);
        }
    }
    return status;
}

static int save(struct poetfw *net)
{
    struct poetfw_metrics metrics;
    const int status = poetfw_save(net);
    if (status == POETFW_OK) {
        (void)poetfw_metrics(net, &metrics);
        poet_print("@commit ");
        poet_print_decimal(metrics.step);
        poet_print("\n");
    }
    return status;
}

static int learn(struct poetfw *net)
{
    struct poetfw_task task;
    struct poetfw_metrics metrics;
    struct poetfw_ring ring;
    int status = poetfw_open(net);
    if (status == POETFW_OK) {
        status = poetfw_load(net);
    }
    if (status < POETFW_OK) {
        return status;
    }
    (void)poetfw_task(net, &task);
    (void)poetfw_metrics(net, &metrics);
    (void)poetfw_ring(net, &ring);
    poet_print("@train done=");
    poet_print_decimal(metrics.step);
    poet_print("\n");
    if (ring.drawn == 0u) { /* nothing was committed but what the host wrote */
        status = take_samples(net, 1u);
        if (status == POETFW_OK) {
            status = save(net);
        }
    }
    for (uint32_t step = metrics.step + 1u; status == POETFW_OK && step <= task.steps; step++) {
        status = take_samples(net, step);
        if (status == POETFW_OK) {
            status = poetfw_train(net);
        }
        if (status == POETFW_OK) {
            poet_print("@step ");
            poet_print_decimal(step);
            poet_print("\n");
            status = poetfw_save_is_due(net) ? save(net) : POETFW_OK;
        }
    }
    return status;
}

_Noreturn void poet_run(void)
{
    struct poetfw net;
    const int status = learn(&net);
    if (status < POETFW_OK) {
        poet_print("@error status=");
        poet_print_signed(status);
        poet_print("\n");
    }
    poet_hal_exit(status < POETFW_OK ? 1 : 0);
}
