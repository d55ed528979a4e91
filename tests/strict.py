# SPDX-License-Identifier: Apache-2.0
"""What our sources are held to, beside the warnings that a project asks for."""

STRICT = ("-Wconversion", "-Werror")
