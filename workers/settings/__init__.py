"""Every setting, and the places where it may stand."""


def option_name(field: str) -> str:
    """The option of a field: ``window_seconds`` is ``--window-seconds``."""
    return "--" + field.replace("_", "-")
