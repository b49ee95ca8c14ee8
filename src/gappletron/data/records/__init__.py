"""From records (dicts, rows of tables, texts) to feature vectors."""
