/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's application: trains beside an interrupt of its own, in C++. */
#include "console.h"
#include "hal.h"
#include "mydriver.h"
#include "poetfw.h"

namespace {

const uint32_t PERIOD_US = 500u;

/* Constructed before poet_run, from a value that the compiler does not know. */
volatile uint32_t answer = 42u;

struct Witness {
    Witness() : seen(answer)
    {
    }
    uint32_t seen;
};

Witness witness;
Timer timer(PERIOD_US);
struct poetfw net;

uint32_t train(uint32_t steps)
{
    struct poetfw_metrics metrics = {};
    if (poetfw_open(&net) >= POETFW_OK && poetfw_load(&net) >= POETFW_OK) {
        for (uint32_t step = 0u; step < steps && poetfw_train(&net) >= POETFW_OK; step++) {
        }
        (void)poetfw_metrics(&net, &metrics);
    }
    return metrics.step;
}

void say(const char *name, uint32_t value)
{
    poet_print(name);
    poet_print_decimal(value);
}

} // namespace

extern "C" void TIMER2_IRQHandler()
{
    timer.take();
}

extern "C" void poet_run()
{
    if (poet_hal_init() == 0) {
        timer.start();
        say("application constructed=", witness.seen);
        say(" steps=", train(3u));
        timer.stop();
        say(" periods=", timer.periods());
        poet_print("\n");
    }
    poet_hal_exit(0);
}
