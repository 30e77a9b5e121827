"""Symptoms from alerts of a rule evaluator (Prometheus, Thanos Ruler, Mimir, vmalert)."""
