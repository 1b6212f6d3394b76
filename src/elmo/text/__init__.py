"""Words and ids: raw text in, integer arrays out; no networks, no files but vocabularies."""
