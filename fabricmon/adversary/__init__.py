"""Random scenarios by hands that do not know the diagnosis (docs/scenarios.md#random-scenarios). Pure.

Nothing here may import the engine or the rules, nor share a number with them: a contract in pyproject.toml. The
distributions are written down in docs/scenarios.md with their sources.
"""
