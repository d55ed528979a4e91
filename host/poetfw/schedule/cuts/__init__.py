# SPDX-License-Identifier: Apache-2.0
"""Valid inequalities (cuts) that strengthen the linear relaxation of the compact program.

The relaxation is weak: a small fraction of a tensor allows a small fraction of a recomputation in
every stage, and these fractions add up. Two families of cuts close most of the gap: `lineage` and
`slots`. Their modules state and prove them. `rounds` adds the cuts that a relaxation violates.
"""
