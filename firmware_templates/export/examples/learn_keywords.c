/* SPDX-License-Identifier: Apache-2.0 */
/* Learns words as they are spoken: each frame becomes features while the next one is heard, so that no more sound is
 * kept than one frame. Of each word it tells what it takes it for; POETFW_BATCH words make a training step.
 *
 * On standard input, for each word: POETFW_CLIP samples of 16 bits, as a microphone would give them, and its class as
 * int32. Where the plan pages, it does to the file storage.img. */
#include <stdio.h>
#include <string.h>

#include "file_card.h"
#include "poetfw.h"
#include "poetfw_features.h"

static float batch_x[POETFW_BATCH][POETFW_FRAMES][POETFW_COEFFICIENTS];
static poetfw_target batch_y[POETFW_BATCH];

/* A word from the microphone, and its class from whoever knows it; 0 at the end. */
static int next_word(float x[POETFW_FRAMES][POETFW_COEFFICIENTS], poetfw_target *y)
{
    static int16_t sound[POETFW_FRAME];
    static float work[POETFW_FEATURES_WORK];
    size_t known = 0;
    for (uint32_t i = 0; i < POETFW_FRAMES; i++) {
        const size_t missing = POETFW_FRAME - known;
        if (fread(sound + known, sizeof sound[0], missing, stdin) != missing) {
            return 0;
        }
        poetfw_frame(sound, x[i], work);
        known = POETFW_FRAME - POETFW_FRAME_STRIDE;
        memmove(sound, sound + POETFW_FRAME_STRIDE, known * sizeof sound[0]);
    }
    return fread(y, POETFW_Y_BYTES, 1, stdin) == 1;
}

static poetfw_target class_of(const float *output)
{
    poetfw_target best = 0;
    for (poetfw_target k = 1; k < POETFW_CLASSES; k++) {
        best = output[k] > output[best] ? k : best;
    }
    return best;
}

static int begin(struct poetfw *net)
{
    if (POETFW_PAGES > 0) {
        int status = use_file("storage.img");
        status = status < POETFW_OK ? status : poetfw_open(net);
        return status < POETFW_OK ? status : poetfw_load(net);
    }
    return poetfw_reset(net);
}

int main(void)
{
    struct poetfw net = {0};
    float output[POETFW_CLASSES];
    unsigned right = 0;
    int status = begin(&net);
    for (uint32_t came = 0; status >= POETFW_OK; came++) {
        const uint32_t place = came % POETFW_BATCH;
        if (!next_word(batch_x[place], &batch_y[place])) {
            break;
        }
        status = poetfw_predict(&net, batch_x[place][0], sizeof batch_x[place], output, sizeof output);
        right += status >= POETFW_OK && class_of(output) == batch_y[place];
        if (status >= POETFW_OK && place == POETFW_BATCH - 1u) {
            status = poetfw_train_on(&net, batch_x[0][0], sizeof batch_x, batch_y, sizeof batch_y);
            printf("words %u: %u of the last %u right\n", (unsigned)came + 1u, right, (unsigned)POETFW_BATCH);
            right = 0;
        }
    }
    if (status < POETFW_OK) {
        fprintf(stderr, "status %d: %s\n", status, poetfw_status_text(status));
    }
    return status < POETFW_OK;
}
