neardup dedup texts.jsonl --output kept.jsonl --verdicts reasons.jsonl --verify exact
