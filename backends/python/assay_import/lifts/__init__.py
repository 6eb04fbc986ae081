"""Rules that replace parts by the op that they compute. Each is exact, has a name, and can be left out."""

from .rules import RULES, Lift, lift

__all__ = ["RULES", "Lift", "lift"]
