"""From raw text to a trained language model: the corpus is prepared, then read, learned and evaluated."""
