"""fabricmon: fabric telemetry and health monitoring for GPU clusters."""

__version__ = "0.1.0"
