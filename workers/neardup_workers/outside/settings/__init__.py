"""Every setting, and its sources."""


def option_name(field: str) -> str:
    """Return the option of a field: ``window_seconds`` is ``--window-seconds``."""
    return "--" + field.replace("_", "-")
