"""The rules in Prometheus: as a rule file, and with the alerts of a rule evaluator as outcomes. Pure."""
