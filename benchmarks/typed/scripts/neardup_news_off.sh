neardup dedup texts.jsonl --output kept.jsonl --preset news --novelty off
