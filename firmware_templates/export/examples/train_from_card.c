/* SPDX-License-Identifier: Apache-2.0 */
/* Trains on the samples of a card that poetfw wrote, goes on where it was saved, up to as many steps as the card asks
 * for, saves when it says, and evaluates the held-out ones. The card is a file here: train_from_card storage.img */
#include <stdio.h>

#include "file_card.h"
#include "poetfw.h"

static int train(struct poetfw *net)
{
    struct poetfw_task task;
    struct poetfw_metrics metrics;
    int status = poetfw_task(net, &task);
    (void)poetfw_metrics(net, &metrics);
    for (uint32_t step = metrics.step + 1; step <= task.steps && status >= POETFW_OK; step++) {
        status = poetfw_train(net);
        if (status >= POETFW_OK) {
            (void)poetfw_metrics(net, &metrics);
            printf("step %u: loss %.9g\n", (unsigned)step, (double)metrics.loss);
        }
        if (status >= POETFW_OK && poetfw_save_is_due(net)) {
            status = poetfw_save(net);
        }
    }
    for (uint32_t batch = 1; batch <= task.evaluations && status >= POETFW_OK; batch++) {
        status = poetfw_evaluate(net, batch);
        if (status >= POETFW_OK) {
            (void)poetfw_metrics(net, &metrics);
            printf("batch %u: metric %.9g\n", (unsigned)batch, (double)metrics.metric);
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    struct poetfw net;
    int status = use_file(argc > 1 ? argv[1] : "storage.img");
    if (status >= POETFW_OK) {
        status = poetfw_open(&net);
    }
    if (status >= POETFW_OK) {
        status = poetfw_load(&net);
    }
    if (status >= POETFW_OK) {
        status = train(&net);
    }
    if (status < POETFW_OK) {
        fprintf(stderr, "status %d: %s\n", status, poetfw_status_text(status));
    }
    return status < POETFW_OK;
}
