"""Convert raw text to a prepared corpus: shards of word ids, the table of distinct words, a vocabulary, a manifest."""
