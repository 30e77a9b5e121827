"""Recordings of what a centre was told and what it concluded, and what becomes of them when they are judged again."""
