"""Snapshot <-> what travels from agent to centre. See docs/design/frame.md."""
