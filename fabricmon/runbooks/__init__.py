"""The runbooks: one for each kind of incident in `catalogue/kinds.py`.

`text/<kind>.md` is written by hand; reasons, possible causes and limits are added from the rules (`runbook.py`).
"""
