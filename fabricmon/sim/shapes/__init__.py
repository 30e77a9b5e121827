"""Fabrics of GPU clusters, of every shape, as graphs: for the simulator, tests and benchmarks. Pure."""

from __future__ import annotations

from fabricmon.sim.shapes.cloud import efa
from fabricmon.sim.shapes.dragonfly import dragonfly, dragonfly_plus
from fabricmon.sim.shapes.fat_tree import dual_tor, fat_tree, rail_fabric, rail_optimised
from fabricmon.sim.shapes.nvl72 import nvl72
from fabricmon.sim.shapes.torus import torus3d

__all__ = [
    "dragonfly", "dragonfly_plus", "dual_tor", "efa", "fat_tree", "nvl72", "rail_fabric", "rail_optimised", "torus3d",
]  # fmt: skip
