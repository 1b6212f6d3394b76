"""Files of labelled examples -> typed examples with their places; predictions -> the same format again."""
