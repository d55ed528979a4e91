# SPDX-License-Identifier: Apache-2.0
"""Valid inequalities that the compact program's rows do not imply for fractions.

Its linear relaxation is weak: a sliver of a tensor allows a sliver of a recomputation in every
stage, and slivers add up. Two families of cuts take most of that away, `lineage` and `slots`; each
module states its inequality and proves it. `rounds` adds the cuts that a relaxation violates.
"""
