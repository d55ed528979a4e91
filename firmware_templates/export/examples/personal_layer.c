/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a network its user's: of one that knows much already, only what is not frozen (`poetfw build --freeze`, for
 * example all but the last layer) learns from one batch of the user's own samples.
 *
 * On standard input, for each sample: POETFW_X_BYTES of features, and its class as int32. The first POETFW_BATCH are
 * learned, in as many steps as the first argument says, else 50; the others tell what came of it. */
#include <stdio.h>
#include <stdlib.h>

#include "poetfw.h"

#define FEATURES (POETFW_X_BYTES / sizeof(poetfw_input))
#define MOST_OTHERS 1000u

#if POETFW_PAGES > 0
#error "this example has no storage to page to: build with more RAM"
#endif

static poetfw_input own_x[POETFW_BATCH][FEATURES];
static poetfw_target own_y[POETFW_BATCH];
static poetfw_input other_x[MOST_OTHERS][FEATURES];
static poetfw_target other_y[MOST_OTHERS];

static int next_sample(poetfw_input *x, poetfw_target *y)
{
    return fread(x, POETFW_X_BYTES, 1, stdin) == 1 && fread(y, POETFW_Y_BYTES, 1, stdin) == 1;
}

static int count_right(struct poetfw *net, uint32_t others, const char *when)
{
    uint32_t right = 0;
    for (uint32_t i = 0; i < others; i++) {
        float output[POETFW_CLASSES];
        poetfw_target best = 0;
        const int status = poetfw_predict(net, other_x[i], sizeof other_x[i], output, sizeof output);
        if (status < POETFW_OK) {
            return status;
        }
        for (poetfw_target k = 1; k < POETFW_CLASSES; k++) {
            best = output[k] > output[best] ? k : best;
        }
        right += best == other_y[i];
    }
    printf("%s: %u of %u right\n", when, (unsigned)right, (unsigned)others);
    return POETFW_OK;
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 50;
    struct poetfw net = {0};
    uint32_t own = 0;
    uint32_t others = 0;
    while (own < POETFW_BATCH && next_sample(own_x[own], &own_y[own])) {
        own++;
    }
    while (others < MOST_OTHERS && next_sample(other_x[others], &other_y[others])) {
        others++;
    }
    if (own < POETFW_BATCH) {
        fprintf(stderr, "%u samples are no batch\n", (unsigned)own);
        return 1;
    }
    int status = poetfw_reset(&net);
    if (status >= POETFW_OK) {
        status = count_right(&net, others, "before");
    }
    for (int step = 0; step < steps && status >= POETFW_OK; step++) {
        status = poetfw_train_on(&net, own_x[0], sizeof own_x, own_y, sizeof own_y);
    }
    if (status >= POETFW_OK) {
        status = count_right(&net, others, "after");
    }
    if (status < POETFW_OK) {
        fprintf(stderr, "status %d: %s\n", status, poetfw_status_text(status));
    }
    return status < POETFW_OK;
}
