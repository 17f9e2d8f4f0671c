"""For all suites: no test measures time, Hypothesis included; a busy machine would fail it."""

from hypothesis import settings

settings.register_profile("firn", deadline=None)
settings.load_profile("firn")
