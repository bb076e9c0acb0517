python -m text_dedup.minhash --path json --data_files texts.jsonl --split train --cache_dir cache \
  --column text --threshold 0.8 --output found
python -c "import datasets; datasets.load_from_disk('found').to_json('kept.jsonl', force_ascii=False)"
