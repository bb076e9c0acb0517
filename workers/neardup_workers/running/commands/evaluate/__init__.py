"""``neardup evaluate``: pairs or verdicts against known pairs or labels."""
