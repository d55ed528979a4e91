/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that knows nothing of poetfw: TIMER2 of an nRF52840, which interrupts every so many microseconds. */
#pragma once

#include <stdint.h>

class Timer {
public:
    explicit Timer(uint32_t period_us);
    virtual ~Timer();
    void start();
    void stop();
    void take();
    uint32_t periods() const
    {
        return periods_;
    }

private:
    volatile uint32_t periods_;
    uint32_t period_us_;
};
