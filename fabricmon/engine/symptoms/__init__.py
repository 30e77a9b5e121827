"""Symptoms: one state machine a rule and row. Pure."""
