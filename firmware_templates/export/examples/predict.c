/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts with the weights that the program holds: for each POETFW_X_BYTES of features on standard input a line of
 * outputs. No storage, no labels. */
#include <stdio.h>

#include "poetfw.h"

#define OUTPUTS (POETFW_OUTPUT_BYTES / sizeof(float))

int main(void)
{
    struct poetfw net = {0};
    poetfw_input x[POETFW_X_BYTES / sizeof(poetfw_input)];
    float output[OUTPUTS];
    int status = poetfw_reset(&net);
    while (status >= POETFW_OK && fread(x, sizeof x, 1, stdin) == 1) {
        status = poetfw_predict(&net, x, sizeof x, (poetfw_output *)output, sizeof output);
        for (unsigned i = 0; i < OUTPUTS; i++) {
            printf("%.9g%c", (double)output[i], i + 1 < OUTPUTS ? ' ' : '\n');
        }
    }
    if (status < POETFW_OK) {
        fprintf(stderr, "status %d: %s\n", status, poetfw_status_text(status));
    }
    return status < POETFW_OK;
}
