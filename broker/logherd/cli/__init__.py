"""The command line: arguments to calls of the rooms, results to text or JSON, errors to sentences and exit codes.

Finds commands through entry points, so that other packages can add theirs. Decides nothing about messages."""
