/* SPDX-License-Identifier: Apache-2.0 */
/* Energy of the whole computer while the program ran, if Linux measures it.
 *
 * rapl     counters of Intel's and AMD's processors, with DRAM where available (powercap). By default, only root may
 * read them.
 * ina3221  what a monitor of that name measures at the module's input, VDD_IN, as on NVIDIA's
 *          Jetson boards (hwmon): ten times a second.
 */
#ifndef POET_ENERGY_H
#define POET_ENERGY_H

/* Starts measuring. Called once, first. POETFW_SYSFS replaces /sys. */
void poet_energy_start(void);

/* Prints "@energy microjoules=N source=S"; nothing without a source or after an error. */
void poet_energy_report(void);

#endif
