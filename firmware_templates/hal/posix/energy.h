/* SPDX-License-Identifier: Apache-2.0 */
/* What the computer took while the program ran, if Linux measures it: all of it, not this program alone.
 *
 * rapl     what Intel's and AMD's processors count of themselves, and of their DRAM where they do
 *          (powercap). Linux lets only root read it, unless told otherwise.
 * ina3221  what a monitor of that name measures at the module's input, VDD_IN, as on NVIDIA's
 *          Jetson boards (hwmon): ten times a second.
 */
#ifndef POET_ENERGY_H
#define POET_ENERGY_H

/* Begins to measure. Called once, first. POETFW_SYSFS names another folder than /sys. */
void poet_energy_start(void);

/* Prints "@energy microjoules=N source=S"; nothing where nothing measures, or something went wrong. */
void poet_energy_report(void);

#endif
