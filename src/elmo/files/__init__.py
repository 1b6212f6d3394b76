"""Files in and out: durable writes, sources of text, rows, resumable folders, worker processes. No models here."""
