# SPDX-License-Identifier: Apache-2.0
"""Python interface, on which the command line is written; `import poetfw` has its names.

Modules are imported when a name of them is used first.
"""
