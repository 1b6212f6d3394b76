"""Our model inside other people's tools, one module per library; each imports its library only when it is used."""
