"""No property here has a deadline: how quick a shared machine is proves nothing."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
