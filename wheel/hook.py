"""The wheel with machine code: hatchling calls this for ``make wheel``, which names its folder in ``NEARDUP_MADE``.

Without the folder the wheel has sources alone, for any system, and compiles with ``neardup[jit]``.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MachineCode(BuildHookInterface):  # type: ignore[misc, type-arg, unused-ignore]
    """Adds the folder, and says for which Python and which system the wheel is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Take the folder that the environment names into ``neardup/machine/made``."""
        folder = os.environ.get("NEARDUP_MADE")
        if folder and version == "standard":
            build_data["force_include"][folder] = "neardup/machine/made"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
