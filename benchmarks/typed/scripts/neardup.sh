neardup dedup texts.jsonl --output kept.jsonl --verdicts reasons.jsonl --threshold 0.8
