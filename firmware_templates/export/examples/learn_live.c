/* SPDX-License-Identifier: Apache-2.0 */
/* Learns from samples as they come, each with its class, and tells before it learns what it takes each for. A
 * replay buffer keeps some of all that came: a step trains on the newest sample and on others drawn from it, so
 * that what was learned early is not forgotten.
 *
 * On standard input, for each sample: POETFW_X_BYTES of features, and its class as int32. What is learned is kept in
 * the file storage.img, in blocks of 512 bytes. Where it holds zeros, it is formatted, and learning begins with the weights that
 * the program holds; else it goes on. Without such a file nothing is kept, and no plan that pages can learn. */
#include <stdio.h>
#include <string.h>

#include "file_card.h"
#include "poetfw.h"

#define FEATURES (POETFW_X_BYTES / sizeof(poetfw_input))
#define REPLAY (4u * POETFW_BATCH) /* samples kept */

static poetfw_input kept_x[REPLAY][FEATURES];
static poetfw_target kept_y[REPLAY];
static poetfw_input batch_x[POETFW_BATCH][FEATURES];
static poetfw_target batch_y[POETFW_BATCH];

/* A sample from the sensor, and its class from whoever knows it; 0 at the end. */
static int next_sample(poetfw_input *x, poetfw_target *y)
{
    return fread(x, POETFW_X_BYTES, 1, stdin) == 1 && fread(y, POETFW_Y_BYTES, 1, stdin) == 1;
}

/* Below a bound: xorshift32 (Marsaglia, J. Stat. Softw. 8(14), 2003). */
static uint32_t draw(uint32_t bound)
{
    static uint32_t state = 2463534242u;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % bound;
}

/* Reservoir sampling (Vitter's algorithm R): each sample that ever came is kept with the same probability. */
static void keep(const poetfw_input *x, poetfw_target y, uint32_t came)
{
    const uint32_t place = came < REPLAY ? came : draw(came + 1u);
    if (place < REPLAY) {
        memcpy(kept_x[place], x, POETFW_X_BYTES);
        kept_y[place] = y;
    }
}

static int learn(struct poetfw *net, const poetfw_input *x, poetfw_target y, uint32_t kept)
{
    memcpy(batch_x[0], x, POETFW_X_BYTES);
    batch_y[0] = y;
    for (uint32_t i = 1; i < POETFW_BATCH; i++) {
        const uint32_t drawn = draw(kept);
        memcpy(batch_x[i], kept_x[drawn], POETFW_X_BYTES);
        batch_y[i] = kept_y[drawn];
    }
    return poetfw_train_on(net, batch_x[0], sizeof batch_x, batch_y, sizeof batch_y);
}

static poetfw_target class_of(const float *output)
{
    poetfw_target best = 0;
    for (poetfw_target k = 1; k < POETFW_CLASSES; k++) {
        best = output[k] > output[best] ? k : best;
    }
    return best;
}

/* Whether a storage holds no image, rather than one of another plan, or what is somebody else's. */
static int is_empty(int status)
{
    return status == POETFW_ERROR_NO_PARTITION || status == POETFW_ERROR_IMAGE;
}

static int begin(struct poetfw *net, int *keeps)
{
    *keeps = use_file("storage.img") >= POETFW_OK;
    if (!*keeps) {
        return poetfw_reset(net);
    }
    int status = poetfw_open(net);
    if (is_empty(status)) {
        status = poetfw_format(net, 1u, 2u);
    }
    if (status >= POETFW_OK) {
        status = poetfw_load(net);
    }
    return status == POETFW_ERROR_COMMIT ? poetfw_reset(net) : status;
}

int main(void)
{
    struct poetfw net = {0};
    poetfw_input x[FEATURES];
    float output[POETFW_CLASSES];
    poetfw_target y;
    uint32_t right = 0;
    int keeps;
    int status = begin(&net, &keeps);
    for (uint32_t came = 0; status >= POETFW_OK && next_sample(x, &y); came++) {
        status = poetfw_predict(&net, x, sizeof x, output, sizeof output);
        if (status >= POETFW_OK) {
            right += class_of(output) == y;
            keep(x, y, came);
            status = learn(&net, x, y, came < REPLAY ? came + 1u : REPLAY);
        }
        if (status == POETFW_ERROR_NOT_FINITE) { /* of the sensor: one sample is left out */
            status = POETFW_OK;
        }
        if ((came + 1u) % 100u == 0u) {
            printf("samples %u: %u of the last 100 right\n", (unsigned)came + 1u, (unsigned)right);
            right = 0;
        }
    }
    if (status >= POETFW_OK && keeps) {
        status = poetfw_save(&net);
    }
    if (status < POETFW_OK) {
        fprintf(stderr, "status %d: %s\n", status, poetfw_status_text(status));
    }
    return status < POETFW_OK;
}
