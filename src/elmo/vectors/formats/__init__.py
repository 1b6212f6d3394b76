"""How a part's rows and vectors lie on the disk: one file a format, writing and reading side by side."""
