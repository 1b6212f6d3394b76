"""One file a task family: what it learns from, its head, its predictions and how they are scored."""
