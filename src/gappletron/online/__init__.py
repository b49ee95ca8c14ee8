"""One round at a time for real use: the model, its receipts, its durable log, and adapters."""
