"""From a model to its training step, and the reference that runs it on this computer."""

from poetfw.training.optimizer import Sgd
from poetfw.training.program import LOSSES, Program, make_program
from poetfw.training.reference import Reference

__all__ = ["LOSSES", "Program", "Reference", "Sgd", "make_program"]
