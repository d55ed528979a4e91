/* SPDX-License-Identifier: Apache-2.0 */
#include "mydriver.h"

namespace {

const uint32_t TIMER2 = 0x4000a000u;
const uint32_t INTERRUPT = 10u;

volatile uint32_t &reg(uint32_t address)
{
    return *reinterpret_cast<volatile uint32_t *>(address);
}

} // namespace

Timer::Timer(uint32_t period_us) : periods_(0u), period_us_(period_us)
{
}

Timer::~Timer()
{
    stop();
}

void Timer::start()
{
    reg(TIMER2 + 0x508u) = 3u;           // BITMODE: 32 bits
    reg(TIMER2 + 0x510u) = 4u;           // PRESCALER: 1 MHz
    reg(TIMER2 + 0x540u) = period_us_;   // CC[0]
    reg(TIMER2 + 0x200u) = 1u;           // SHORTS: COMPARE[0] clears
    reg(TIMER2 + 0x304u) = 1u << 16;     // INTENSET: COMPARE[0]
    reg(0xe000e100u) = 1u << INTERRUPT;  // NVIC
    reg(TIMER2) = 1u;                    // TASKS_START
}

void Timer::stop()
{
    reg(TIMER2 + 0x004u) = 1u; // TASKS_STOP
}

void Timer::take()
{
    reg(TIMER2 + 0x140u) = 0u; // EVENTS_COMPARE[0]
    const uint32_t event = reg(TIMER2 + 0x140u); // once it is read, it is cleared
    periods_ = periods_ + 1u - event;
}
