"""Costs of questions to devices, and when a device is not read for a while. Pure."""
