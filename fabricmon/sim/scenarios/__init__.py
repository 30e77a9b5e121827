"""Scenarios: their form, runs and evaluation. The catalogue is the YAML files here. Pure."""
