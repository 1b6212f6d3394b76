"""The commands, one file each or one per group; the table of them is elmo.cli.app."""
