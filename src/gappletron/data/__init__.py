"""What is played: streams, files and tables, records as features, normalization, feature vectors."""
