"""The status page. Everything here but `routes.py` is pure: from what the centre knows to HTML, or to the map's JSON.

`document.py` is the whole page, complete without a script; `cards.py`, `incident.py`, `node.py` and `component.py` are
its parts; `plan.py` and `health.py` are the map; `routes.py` serves them and tells browsers when something changed.
"""
