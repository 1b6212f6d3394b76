"""File input and output: durable writes, text sources, rows, resumable folders, worker processes. No models here."""
