"""Diagnosis: the most probable causes of the open symptoms. Pure."""
