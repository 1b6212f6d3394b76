"""The APIs of earlier implementations of ELMo: a program only changes its imports."""
